"""nv.range: which numbers it counts, in which type, and what is no range."""

import queue

import pytest

from nvdsl.errors import TraceError
from nvdsl.mlir import ir
from nvdsl.trace.control import Range
from nvdsl.values import dtypes as nv
from nvdsl.values.traced import Unsigned
from tests.unit.trace.tracing import fails, trace

RANGES = [(4,), (0,), (2, 5), (5, 2), (0, 10, 3), (1, 8, 7), (9, 0, -1), (9, 0, -4), (0, 9, -1), (-3, -9, -2)]


@pytest.mark.parametrize("bounds", RANGES)
@pytest.mark.parametrize("traced_bounds", [False, True])
def test_the_same_numbers_as_pythons_range(bounds, traced_bounds):
    def f(*values):
        step = bounds[2] if len(bounds) == 3 else 1
        for i in Range(*(values if traced_bounds else bounds)[:2], *((step,) if len(bounds) == 3 else ())):
            print(i)

    types = [nv.i32] * len(bounds)
    assert trace(f, *types).printed(*bounds) == [f"{i}\n" for i in range(*bounds)]


def test_a_traced_step():
    def f(n, step):
        for i in Range(1, n, step):
            print(i)

    assert trace(f, nv.i32, nv.i32).printed(9, 3) == ["1\n", "4\n", "7\n"]


@pytest.mark.parametrize(
    "types, result",
    [
        ((nv.i32,), nv.i32),
        ((nv.i8,), nv.i32),
        ((nv.u8, nv.u16), nv.u32),
        ((nv.index,), nv.index),
        ((nv.i32, nv.index), nv.index),
        ((nv.i64, nv.i32), nv.i64),
        ((nv.u32, nv.i32), nv.u32),
        ((nv.u64, nv.i32), nv.u64),
    ],
)
def test_the_type_of_the_loop_variable(types, result):
    def f(*bounds):
        for i in Range(*bounds):
            seen.put(i)

    seen = queue.SimpleQueue()  # what it holds is not watched
    traced = trace(f, *types)
    (op,) = traced.ops("scf.for")
    item = seen.get()
    assert item.dtype is result
    assert isinstance(item, Unsigned) is result.is_unsigned
    assert ("unsignedCmp" in op.attributes) is result.is_unsigned
    traced.module.operation.verify()


@pytest.mark.parametrize(
    "unroll, hint", [(False, "disable = true"), (1, "disable = true"), (True, "full = true"), (4, "count = 4 : i32")]
)
def test_unroll(unroll, hint):
    def f(n):
        for i in Range(n, unroll=unroll):
            print(i)

    (op,) = trace(f, nv.i32).ops("scf.for")
    assert str(op.attributes["loop_annotation"]) == f"#llvm.loop_annotation<unroll = <{hint}>>"


def test_without_unroll_no_annotation():
    def f(n):
        for i in Range(n):
            print(i)

    (op,) = trace(f, nv.i32).ops("scf.for")
    assert len(op.attributes) == 0


def test_a_traced_number_as_iterable():
    def f(n):
        for i in n:  # <-
            print(i)

    assert "nv.range" in fails(f, nv.i32, match="a loop over a traced number").fix

    def g(n):
        for i in range(n):  # <-
            print(i)

    assert "nv.range" in fails(g, nv.i32, match="a traced value used as a Python int").fix


def test_outside_of_a_for_statement():
    def f(n):
        return [i + 1 for i in Range(n)]  # <-

    fails(f, nv.i32, match="nv.range outside of a traced `for` statement")
    for use in (list, enumerate, zip):
        with pytest.raises(TraceError, match="nv.range outside of a traced `for` statement"):
            list(use(Range(3)))


def test_bad_ranges():
    def zero(n):
        for i in Range(0, n, 0):  # <-
            print(i)

    fails(zero, nv.i32, match="nv.range with step 0")

    def real(n):
        for i in Range(n):  # <-
            print(i)

    fails(real, nv.f32, match="nv.range over a value of type f32")
    with pytest.raises(TraceError, match="nv.range over 2.5"):
        Range(2.5)
    with pytest.raises(TraceError, match="nv.range over 'a'"):
        Range("a")
    with pytest.raises(TraceError, match="unroll=0"):
        Range(3, unroll=0)
    for arguments in ((), (1, 2, 3, 4)):
        with pytest.raises(TypeError, match="expected 1 to 3 arguments"):
            Range(*arguments)

    def down(n):
        for i in Range(n, 0, -1):  # <-
            print(i)

    fails(down, nv.u32, match="nv.range counts down on u32")

    def vector(n):
        values = ir.Operation.create("vector.broadcast", results=[ir.VectorType.get([2], n.type)], operands=[n]).result
        for i in Range(values):  # <-
            print(i)

    fails(vector, nv.i32, match="nv.range over a value of type")


def test_a_literal_that_does_not_fit():
    def f(n):
        for i in Range(2**40):  # <-
            print(i)

    fails(f, nv.i32, match="does not fit i32")
