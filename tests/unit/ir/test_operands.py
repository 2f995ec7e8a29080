"""Operands and attributes by name, of ops written as text."""

import pytest

from nvdsl.ir.operands import (
    constant_value,
    flag,
    has,
    integer,
    integers,
    launch_sizes,
    launch_smem,
    matrix_shape,
    mbarriers,
    named,
    optional,
    string,
    word,
)
from nvdsl.ir.walk import constant, find
from nvdsl.mlir import ir

MODULE = """
func.func @f(%x: index, %n: i32, %p: i1, %state: i64, %at: !llvm.ptr<3>, %d: !llvm.struct<(f32, f32, f32, f32)>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %bytes = arith.constant 4096 : i32
  %yes = arith.constant true
  %half = arith.constant 0.5 : f32
  gpu.launch clusters(%a, %b, %c) in (%ca = %x, %cb = %c1, %cc = %c1)
             blocks(%i, %j, %k) in (%gi = %c2, %gj = %x, %gk = %c1)
             threads(%t, %u, %v) in (%ti = %x, %tj = %c2, %tk = %c1) dynamic_shared_memory_size %bytes {
    gpu.terminator
  }
  gpu.launch blocks(%i, %j, %k) in (%gi = %c1, %gj = %c1, %gk = %c1)
             threads(%t, %u, %v) in (%ti = %c2, %tj = %c1, %tk = %c1) {
    %id = gpu.thread_id y
    gpu.terminator
  }
  %group = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 3>
  %one = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
  nvgpu.mbarrier.init %group[%c2], %c1, predicate = %p
    : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 3>
  nvgpu.mbarrier.init %one[%c1], %c2 : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
  %y = nvvm.shfl.sync bfly %n, %n, %n, %n : i32 -> i32
  nvvm.mbarrier.expect_tx %at, %n : !llvm.ptr<3>, i32
  nvvm.barrier id = %n number_of_threads = %n
  %e = nvvm.wgmma.mma_async %state, %state, %d, #nvvm.shape<m = 64, n = 8, k = 16>,
    D [<f32>, #nvvm.wgmma_scale_out<one>], A [<f16>, #nvvm.wgmma_scale_in<neg>, <row>],
    B [<f16>, #nvvm.wgmma_scale_in<one>, <col>]
    : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
  nvvm.cp.async.bulk.wait_group 5 {read}
  %q = llvm.getelementptr %at[7] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
  cf.assert %p, "no"
  return
}
"""


@pytest.fixture(scope="module")
def module():
    with ir.Context(), ir.Location.unknown():
        yield ir.Module.parse(MODULE)


def one(module, name, number=0):
    return find(module, name)[number]


def test_optional_operands_and_groups(module):
    init, without = find(module, "nvgpu.mbarrier.init")
    assert constant(named(init).mbarId) == 2 and constant(named(init).count) == 1
    assert str(named(init).predicate.type) == "i1"
    assert named(without).predicate is None and optional(without, "predicate") is None
    assert optional(without, "no such operand") is None
    launch = one(module, "gpu.launch")
    assert list(named(launch).asyncDependencies) == []


def test_sizes_of_launches(module):
    with_cluster, plain = find(module, "gpu.launch")
    sizes = [[constant(size) for size in one] for one in launch_sizes(with_cluster)]
    assert sizes == [[2, None, 1], [None, 2, 1], [None, 1, 1]]
    assert [[constant(size) for size in one] for one in launch_sizes(plain)] == [[1, 1, 1], [2, 1, 1], []]
    assert (launch_smem(with_cluster), launch_smem(plain)) == (4096, 0)


def test_numbers_of_mbarriers(module):
    assert [mbarriers(op.results[0]) for op in find(module, "nvgpu.mbarrier.create")] == [3, 1]


def test_attributes(module):
    wait, wgmma, gep = (
        one(module, n) for n in ("nvvm.cp.async.bulk.wait_group", "nvvm.wgmma.mma_async", "llvm.getelementptr")
    )
    assert integer(wait, "group") == 5 and has(wait, "read") and not has(wgmma, "read")
    assert integer(wait, "alignment", 16) == 16
    with pytest.raises(KeyError):
        integer(wait, "alignment")
    assert matrix_shape(wgmma) == (64, 8, 16)
    assert [word(wgmma, n) for n in ("typeA", "typeD", "scaleD", "scaleA", "scaleB", "layoutA", "layoutB", "none")] == [
        "f16", "f32", "one", "neg", "one", "row", "col", "",
    ]  # fmt: skip
    assert word(one(module, "nvvm.shfl.sync"), "kind") == "bfly"
    assert word(one(module, "gpu.thread_id"), "dimension") == "y"
    assert integers(gep, "rawConstantIndices") == [7]
    assert string(one(module, "cf.assert"), "msg") == "no" and string(gep, "msg") == ""
    assert not flag(one(module, "nvvm.mbarrier.expect_tx"), "relaxed")


def test_constants(module):
    assert [constant_value(op) for op in find(module, "arith.constant")] == [1, 2, 4096, 1, None]
