"""`if` on a traced condition: scf.if, and what is merged."""

import numpy as np
import pytest

from nvdsl.errors import TraceError
from nvdsl.trace.control import Range
from nvdsl.values import dtypes as nv
from nvdsl.values.traced import Unsigned
from tests.unit.trace.tracing import fails, trace


def test_a_name_is_merged():
    def f(a, b):
        if a > b:
            x = a - b
        else:
            x = b - a
        return x

    traced = trace(f, nv.i32, nv.i32)
    assert [traced.run(*p) for p in ((5, 3), (3, 5), (4, 4))] == [2, 2, 0]
    (op,) = traced.ops("scf.if")
    assert len(op.results) == 1


def test_without_else():
    def f(a):
        x = a
        if a < 0:
            x = -a
        return x

    traced = trace(f, nv.i32)
    assert [traced.run(v) for v in (-3, 0, 3)] == [3, 0, 3]


def test_elif_is_nested_in_the_else():
    def f(a):
        if a < 0:
            sign = -1
        elif a == 0:
            sign = 0
        else:
            sign = 1
        return sign

    traced = trace(f, nv.i32)
    assert [traced.run(v) for v in (-7, 0, 9)] == [-1, 0, 1]
    outer, inner = traced.ops("scf.if")
    assert inner.parent.name == "scf.if" and outer.parent.name == "func.func"


def test_what_is_not_needed_is_not_merged():
    def f(a):
        if a > 0:
            t = a * 2
            x = t + 1
        else:
            t = a * 3
            x = t + 2
        return x

    (op,) = trace(f, nv.i32).ops("scf.if")
    assert len(op.results) == 1


def test_effects_only():
    def f(a):
        if a > 0:
            print(a)

    traced = trace(f, nv.i32)
    (op,) = traced.ops("scf.if")
    assert len(op.results) == 0 and len(op.regions[1].blocks) == 0
    assert traced.printed(4) == ["4\n"] and traced.printed(-4) == []


def test_the_second_branch_sees_the_values_of_before():
    def f(a):
        x = a
        if a > 0:
            x = a + 100
            y = x
        else:
            y = x
        return y

    traced = trace(f, nv.i32)
    assert (traced.run(1), traced.run(-1)) == (101, -1)


@pytest.mark.parametrize(
    "number, other, result",
    [
        (1, nv.f32, nv.f32),
        (1.5, nv.f16, nv.f16),
        (7, nv.i64, nv.i64),
        (3, nv.index, nv.index),
        (True, nv.bool_, nv.bool_),
        (3, nv.u32, nv.u32),
    ],
)
def test_a_number_takes_the_type_of_the_value(number, other, result):
    def f(a, b):
        if a > 0:
            x = number
        else:
            x = b
        if a > 1:
            y = b
        else:
            y = number
        return x, y

    x, y = trace(f, nv.i32, other).result
    assert x.dtype is result and y.dtype is result


def test_two_numbers_meet():
    def f(a):
        if a > 0:
            i, x, m, flag, same, zero, nan = 1, 1.5, 1, True, 3, 0.0, float("nan")
        else:
            i, x, m, flag, same, zero, nan = 2, 2.5, 0.5, False, 3, -0.0, float("nan")
        return i, x, m, flag, same, zero, nan

    i, x, m, flag, same, zero, nan = trace(f, nv.i32).result
    assert [v.dtype for v in (i, x, m, flag, zero)] == [nv.i32, nv.f32, nv.f32, nv.bool_, nv.f32]
    assert same == 3 and type(same) is int  # the same on both ways stays Python's
    assert type(nan) is float


def test_unsigned_stays_unsigned():
    def f(a, b):
        if a > 0:
            b = b + 1
        return b

    result = trace(f, nv.i32, nv.u32).result
    assert isinstance(result, Unsigned)


def test_numpy_scalars():
    def f(a, b):
        x = np.float16(1.5)
        if a > 0:
            x = b
        return x

    assert trace(f, nv.i32, nv.f16).result.dtype is nv.f16


def test_plain_conditions_in_a_traced_branch():
    def f(a):
        for i in range(3):
            if a > i:
                for j in range(4):
                    if j == 2:
                        break
                    if j == 0:
                        continue
                    a = a + j
        return a

    assert trace(f, nv.i32).run(5) == 8


def test_an_exception_surfaces_as_itself_and_leaves_no_op():
    def f(a):
        try:
            if a > 0:
                a = a + 1
                {}["user's"]
        except KeyError as error:
            caught = str(error)
        return caught

    traced = trace(f, nv.i32)
    assert traced.result == '"user\'s"'
    assert not traced.ops("scf.if")

    def g(a):
        if a > 0:
            {}["user's"]

    with pytest.raises(KeyError, match="user's") as caught:
        trace(g, nv.i32)
    assert caught.traceback[-1].lineno + 1 == g.__code__.co_firstlineno + 2


def test_an_exception_that_a_condition_raises():
    def f(a):
        if a > 0:
            pass
        else:
            for _ in Range(3):
                raise ValueError("too small")  # <-

    assert "assert" in fails(f, nv.i32, match="`raise` inside an `if` on a traced condition").fix

    def g(a):
        for _ in Range(a):
            if 1 > 2:
                raise ValueError
            if isinstance(a, int):
                raise TypeError
        if a > 0:
            try:
                {}["x"]
            except KeyError:
                a = a + 1
        return a

    assert trace(g, nv.i32).run(3) == 4


def test_deep_inside_a_frame_that_fails_the_insertion_point_is_restored():
    def f(a, b):
        try:
            if a > 0:
                while a > b:
                    for x in [1]:
                        if b > x:
                            {}["x"]
        except KeyError:
            pass
        return a + b

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(1, 2) == 3
    assert not traced.ops("scf.while")


def test_a_condition_that_is_no_bool():
    def f(a):
        if a:  # <-
            pass

    error = fails(f, nv.i32, match="`if` takes a condition, and was given a value of type i32")
    assert error.fix == "compare it: `x != 0`"


def test_an_op_as_condition():
    def f(a, b):
        from nvdsl.mlir.dialects import arith

        if arith.CmpIOp(arith.CmpIPredicate.sgt, a, b):
            a = b
        return a

    assert trace(f, nv.i32, nv.i32).run(5, 3) == 3


def test_globals_are_not_assigned_under_a_traced_condition():
    def f(a):
        global some_global
        some_global = 1
        if a > 0:
            some_global += 1  # <-

    fails(f, nv.i32, match="assignment to the global `some_global` inside an `if` on a traced condition")


def test_too_deep():
    source = "def f(a):\n" + "".join(f"{' ' * (i + 4)}if a > {i}:\n" for i in range(17)) + " " * 30 + "pass\n"
    from tests.unit.trace.tracing import define

    with pytest.raises(TraceError, match="nested too deeply"):
        trace(define(source), nv.i32)
