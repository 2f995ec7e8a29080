"""Fragments and vectors in branches and loops: what differs in more than its values is not merged."""

import pytest

import nvdsl as nv
from nvdsl.ir.walk import find
from nvdsl.mlir.dialects import llvm
from tests.unit.kernels import array, inline_ptx, trace


def test_a_part_of_a_sum_is_not_merged_with_a_sum():
    def body():
        acc = nv.accumulator(64, 16)
        total = acc.sum(axis=1)
        if nv.thread_id.x > 3:
            total = acc.sum(axis=1, partial=True)
        total.values()

    whole = r"FragmentVector\(\(64,\) of rows, f32\)"
    with pytest.raises(nv.TraceError, match=rf"each thread\) where it is true.* and as {whole}"):
        trace(body)


def test_rows_are_not_merged_with_columns():
    def body():
        v = nv.row_vector(1.0, 0, 64)
        if nv.thread_id.x > 3:
            v = nv.column_vector(1.0, 0, 8)
        v.values()

    with pytest.raises(nv.TraceError, match=r"\(8,\) of columns, f32\) where it is true") as caught:
        trace(body)
    assert "one shape and type in both branches" in caught.value.fix


def test_accumulators_of_two_types_in_as_many_registers_are_not_merged():
    def body():
        acc = nv.accumulator(64, 32, nv.f16)  # 8 registers of two
        if nv.thread_id.x > 3:
            acc = nv.accumulator(64, 16, nv.i32)  # 8 registers
        acc.registers()

    with pytest.raises(nv.TraceError, match=r"Accumulator\(\(64, 16\), i32\) where it is true"):
        trace(body)


def test_a_branch_that_scales_one_accumulator_merges_one_struct():
    def body(x):
        acc, other = nv.accumulator(64, 16) * 1.0, nv.accumulator(64, 16) * 2.0
        m = other.max(axis=1)
        if nv.vote_any(m > 8.0):
            acc = acc * m[:, None]
        (acc + other).store(x, (0, 0))

    (branch,) = find(trace(body, array(nv.f32, 64, 16)), "scf.if")
    assert len(branch.results) == 1


@pytest.mark.parametrize(("dtype", "registers"), [(nv.bf16, 4), (nv.f32, 8), (nv.bool_, 8)])
def test_a_loop_carries_as_few_registers_as_there_are(dtype, registers):
    def body():
        x = nv.accumulator(64, 16)
        x = x > 0.0 if dtype is nv.bool_ else (x * 2.0).to(dtype)
        for _ in nv.range(3):
            x = ~x if dtype is nv.bool_ else x + x
        nv.sched_barrier(x)

    (loop,) = find(trace(body), "scf.for")
    carried = [result.type for result in loop.results]
    fields = list(llvm.StructType(carried[0]).body) if isinstance(carried[0], llvm.StructType) else carried
    assert len(fields) == registers


def test_an_accumulator_is_read_once_for_many_uses():
    """One barrier of the compiler for the registers, and one more in each branch that comes first."""

    def body():
        acc = nv.accumulator(64, 16)
        nv.sched_barrier(acc * 2.0 + acc.max(axis=1)[:, None])
        if nv.thread_id.x > 3:
            nv.sched_barrier(acc - 1.0)

    module = trace(body)
    assert len(inline_ptx(module, "touch")) == 2  # of the zeros, and of the reads
