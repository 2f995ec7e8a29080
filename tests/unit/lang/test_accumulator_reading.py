"""Reading an accumulator: where each register's element goes, and in which type."""

import itertools

import pytest

import nvdsl as nv
from nvdsl.ir.walk import find
from nvdsl.layout import a_fragment_element, accumulator_element
from nvdsl.mlir import ir
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import array, inline_ptx, kernel_ops, position, refused_body, trace

WAIT = "nvvm.wgmma.wait.group.sync.aligned"


@pytest.mark.parametrize("dtype", [nv.f32, nv.f16], ids=str)
def test_elements_cover_the_tile_once(dtype):
    found = []

    def body():
        found.extend(nv.accumulator(128, 24, dtype).elements())

    trace(body)
    every = [(evaluate(row, t), evaluate(col, t)) for t in range(128) for row, col, _ in found]
    assert sorted(every) == [(r, c) for r in range(128) for c in range(24)]


def test_elements_count_from_the_warpgroups_own_first_thread():
    found = []

    def body():
        found.extend(nv.accumulator(64, 8).elements())

    trace(body, block=256)
    here, there = ([(evaluate(r, t), evaluate(c, t)) for r, c, _ in found] for t in (37, 128 + 37))
    assert here == there == [accumulator_element(37, i) for i in range(4)]


def stored(module):
    """{(row, col): times} over all 128 threads, from the addresses of the stores."""
    cells = {}
    for op in find(module, "vector.store", "memref.store"):
        width = ir.VectorType(op.operands[0].type).shape[0] if op.name == "vector.store" else 1
        for t in range(128):
            row, col = (evaluate(x, t) for x in list(op.operands)[2:4])
            for i in range(width):
                cells[row, col + i] = cells.get((row, col + i), 0) + 1
    return cells


@pytest.mark.parametrize(
    ("start", "strides", "paired"),
    [
        ((0, 0), None, True),
        ((64, 6), None, True),
        ((8, 3), None, False),
        ((0, 0), (65, 1), False),
        ((0, 0), (1, 256), False),
    ],
)
def test_store_writes_each_element_once(start, strides, paired):
    """Pairs of neighbours in one access, where rows are contiguous and the pairs aligned."""

    def body(out):
        nv.accumulator(128, 16).store(out, start)

    module = trace(body, array(nv.f32, 256, 64, strides=strides))
    top, left = start
    assert stored(module) == {(top + r, left + c): 1 for r in range(128) for c in range(16)}
    assert bool(find(module, "vector.store")) == paired
    assert bool(find(module, "memref.store")) != paired


@pytest.mark.parametrize(
    ("acc", "out", "op"),
    [
        (nv.f32, nv.f16, "nvvm.convert.f32x2.to.f16x2"),
        (nv.f32, nv.bf16, "nvvm.convert.f32x2.to.bf16x2"),
        (nv.f32, nv.f64, "arith.extf"),
        (nv.f16, nv.f32, "arith.extf"),
        (nv.i32, nv.i8, "arith.trunci"),
        (nv.i32, nv.f32, "arith.sitofp"),
    ],
    ids=str,
)
def test_store_converts(acc, out, op):
    def body(x):
        nv.accumulator(64, 8, acc).store(x, (0, 0))

    module = trace(body, array(out, 64, 8))
    assert find(module, op)
    assert len(stored(module)) == 64 * 8


def test_map_computes_on_every_element():
    def body():
        acc = nv.accumulator(128, 16).map(lambda x: nv.max(x, 0.0))
        assert (acc.shape, acc.dtype) == ((128, 16), nv.f32)
        assert len(acc.blocks) == 2

    assert len(find(trace(body), "arith.maximumf", "arith.maxnumf")) == 16


def test_map_gives_what_the_function_gives():
    """Bits stay bits: nothing is converted back to the accumulator's type."""

    def body():
        acc = nv.accumulator(64, 16)
        bits = acc.map(lambda x: nv.bitcast(x, nv.i32))
        assert (bits.shape, bits.dtype) == ((64, 16), nv.i32)
        assert acc.max(axis=1).map(lambda x: nv.f16(x)).dtype is nv.f16
        assert nv.accumulator(64, 16, nv.f16).map(lambda x: nv.f32(x) * 2.0).dtype is nv.f32
        assert acc.map(lambda x: 1).dtype is nv.f32  # a Python number has the element's type
        assert nv.warp_accumulator(16, 8).map(lambda x: nv.bitcast(x, nv.i32)).dtype is nv.i32

    module = trace(body)
    assert not find(module, "arith.sitofp", "arith.fptosi")


def test_a_fragment_holds_what_the_next_wgmma_reads():
    """Register r of step s packs accumulator registers 8 s + 2 r and the one after: the same elements."""
    for t, step, r in itertools.product(range(128), range(4), range(4)):
        row, col = a_fragment_element(t, r, 2)
        assert accumulator_element(t, 8 * step + 2 * r) == (row, 16 * step + col)
        assert accumulator_element(t, 8 * step + 2 * r + 1) == (row, 16 * step + col + 1)

    def body():
        fragment = nv.accumulator(128, 64).fragment(nv.bf16)
        assert (fragment.shape, fragment.dtype) == ((128, 64), nv.bf16)
        assert [[len(step) for step in block] for block in fragment.registers] == [[4] * 4] * 2
        assert {str(x.type) for block in fragment.registers for step in block for x in step} == {"i32"}
        B = nv.smem((64, 32), nv.bf16, swizzle=64)
        acc = nv.accumulator(128, 32)
        acc += fragment @ B

    module = trace(body)
    assert len(inline_ptx(module, "wgmma")) == 4 * 2


@pytest.mark.parametrize(("n", "dtype"), [(24, nv.f16), (8, nv.bf16), (64, nv.f32), (64, nv.e4m3), (64, nv.i16)])
def test_fragments_that_no_wgmma_reads_are_refused(n, dtype):
    def body():
        nv.accumulator(64, n).fragment(dtype)

    refused_body(body)


def test_reads_stay_behind_the_wait():
    def body():
        A, B = nv.smem((64, 16), nv.f16, swizzle=32), nv.smem((16, 16), nv.f16, swizzle=32)
        acc = nv.accumulator(64, 16)
        acc += A @ B
        nv.wgmma_wait(0)
        acc.registers()

    module = trace(body)
    names = kernel_ops(module)
    (touch,) = inline_ptx(module, "touch")
    assert position(module, touch) > names.index(WAIT)
