"""`and`, `or`, `not`, chained comparisons, `x if c else y` and `assert` on traced values."""

import itertools
import queue

import numpy as np
import pytest

from nvdsl.trace.control import Range
from nvdsl.values import dtypes as nv
from tests.unit.trace.objects import Carrier
from tests.unit.trace.tracing import fails, trace

BOOLS = [False, True]


def test_truth_tables():
    def f(a, b, c):
        return a and b, a or b, not a, a and b and c, a or b or c, a and b or c, a or not b and c, not (a or b)

    traced = trace(f, nv.bool_, nv.bool_, nv.bool_)
    for values in itertools.product(BOOLS, BOOLS, BOOLS):
        assert traced.run(*values) == f(*values)
    assert not traced.ops("scf.if")


def test_pure_operands_need_no_branch():
    def f(a, b):
        return a > 0 and b + 1 < a * 2

    traced = trace(f, nv.i32, nv.i32)
    assert not traced.ops("scf.if") and len(traced.ops("arith.select")) == 1
    assert (traced.run(3, 1), traced.run(0, 1), traced.run(1, 5)) == (True, False, False)


def test_an_operand_with_an_effect_is_guarded():
    def f(a, b):
        def noisy(x):
            print(x)
            return x > 3

        return a > 0 and noisy(b), a > 0 or noisy(b + 100)

    traced = trace(f, nv.i32, nv.i32)
    assert len(traced.ops("scf.if")) == 2 and not traced.ops("arith.select")
    assert traced.run(1, 5) == (True, True) and traced.printed(1, 5) == ["5\n"]
    assert traced.run(0, 5) == (False, True) and traced.printed(0, 5) == ["105\n"]


def test_a_division_is_guarded():
    def f(a, b):
        return b != 0 and a // b > 2

    traced = trace(f, nv.i32, nv.i32)
    (op,) = traced.ops("scf.if")
    assert traced.ops("arith.divsi")[0].parent == op
    assert traced.run(9, 0) is False and traced.run(9, 3) is True


def test_membership():
    def f(a, b):
        return (
            a in (1, 2, b), a not in [b, 7], a in {3, 4}, b in {1: "x"}, 3 in (a, b), 0 < a in range(-3, 9, 2),
            a in range(7, -4, -3), a not in range(8),
        )  # fmt: skip

    traced = trace(f, nv.i32, nv.i32)
    for a, b in [(1, 1), (2, 3), (3, 7), (7, 4), (-4, 0), (-2, 1), (9, 9)]:
        assert traced.run(a, b) == f(a, b)


def test_membership_that_python_knows():
    def f(a):
        return a in range(4, 4), a not in (), 3 in {3, 4}, "b" in "abc", [] in [a, []][1:]

    assert trace(f, nv.i32).result == (False, True, True, True, True)


def test_plain_operands_keep_pythons_rules():
    def f(a):
        c = a > 0
        return (
            True and c, False or c, [] or c, 5 and c, False and c, True or c, 0 and c, "text" or c,
            c and True, c and False, c or False, c or True, c and np.bool_(True),
        )  # fmt: skip

    traced = trace(f, nv.i32)
    assert traced.result[4:8] == (False, True, 0, "text")
    expected = [True] * 4 + [True, False, True, True, True]
    assert list(traced.run(3)) == expected
    assert list(traced.run(-3)) == [False] * 4 + [False, False, False, True, False]


def test_chained_comparisons():
    def f(a, b, c):
        return a < b < c, a <= b == c, a != b > c >= 0, 0 <= a < 3

    traced = trace(f, nv.i32, nv.i32, nv.i32)
    for values in itertools.product(range(-1, 3), repeat=3):
        assert traced.run(*values) == f(*values)


def test_each_operand_of_a_chain_is_evaluated_once():
    def f(a, b):
        calls = queue.SimpleQueue()  # what it holds is not watched

        def note(x):
            calls.put(1)
            return x

        return note(a) < note(b) < note(a + b), calls.qsize()

    assert trace(f, nv.i32, nv.i32).result[1] == 3


def test_identity_and_membership_stay_pythons():
    def f(a):
        return a is None, a is not None, None in (None, 1), "x" not in {"y": a}, None is not a is not f

    assert trace(f, nv.i32).result == (False, True, True, True, True)


def test_conditional_expressions():
    def f(a, b):
        x = a if a > b else b
        y = 1.5 if a > 0 else 2.5
        z = 7 if a > b else a
        t, u = (a, 1) if b > 0 else (b, 2)
        v = "plain" if True else a
        return x, y, z, t, u, v

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(5, 3) == (5, 1.5, 7, 5, 1) and traced.run(-1, 0) == (0, 2.5, -1, 0, 2)
    assert traced.result[1].dtype is nv.f32 and traced.result[5] == "plain"
    assert not traced.ops("scf.if")


def test_a_conditional_expression_with_an_effect():
    def f(a):
        def noisy(x):
            print(x)
            return x

        return noisy(a) if a > 0 else noisy(a * 10)

    traced = trace(f, nv.i32)
    assert len(traced.ops("scf.if")) == 1
    assert traced.run(2) == 2 and traced.printed(2) == ["2\n"] and traced.printed(-2) == ["-20\n"]


def test_a_conditional_expression_of_carriers():
    def f(a, b):
        state = Carrier(a, b) if a > 0 else Carrier(b, a)
        return state.a, state.b

    assert trace(f, nv.i32, nv.i32).run(1, 2) == (1, 2)


def test_in_lambdas_and_comprehensions():
    def f(a, b):
        larger = lambda x, y: x if x > y else y  # noqa: E731
        values = [v if v > 0 else 0 for v in (a, b) if v is not None]
        flags = [v > 1 and v < 9 for v in values]
        return larger(a, b), *values, *flags

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(-4, 5) == (5, 0, 5, False, True)


def test_as_conditions():
    def f(a, b):
        total = 0
        for i in Range(a):
            if not i == 2 and (i < b or i > 5) and 0 <= i < 8:
                total += i
        return total

    assert trace(f, nv.i32, nv.i32).run(10, 4) == sum(i for i in range(10) if not i == 2 and (i < 4 or i > 5) and i < 8)


def test_assert_on_a_traced_condition():
    def f(a, b):
        assert a > b, "a must be larger"
        assert a < 100
        assert True, "never"
        assert (a > 0 and b > 0) or a == b, f"with {1 + 1} numbers"

    traced = trace(f, nv.i32, nv.i32)
    line = f.__code__.co_firstlineno
    messages = [op.attributes["msg"].value for op in traced.ops("cf.assert")]
    assert messages == [
        f"{__file__}:{line + 1}: a must be larger",
        f"{__file__}:{line + 2}: assertion failed",
        f"{__file__}:{line + 4}: with 2 numbers",
    ]


def test_a_plain_assertion_fails_as_in_python():
    def f(a):
        assert a is None, "text"

    with pytest.raises(AssertionError, match="text"):
        trace(f, nv.i32)


def test_numbers_are_no_conditions():
    def f(a, b):
        return (a > 0) and b  # <-

    assert "x != 0" in fails(f, nv.i32, nv.i32, match="`and` takes a condition.* of type i32").fix

    def g(a):
        return not a  # <-

    fails(g, nv.i32, match="`not` takes a condition")

    def h(a):
        return 1 if a else 2  # <-

    fails(h, nv.i32, match="`x if c else y` takes a condition")

    def k(a):
        return a or (a > 1)  # <-

    fails(k, nv.i32, match="`or` takes a condition")

    def m(a):
        assert a  # <-

    fails(m, nv.f32, match="`assert` takes a condition, and was given a value of type f32")


def test_a_plain_right_operand_that_is_no_bool():
    def f(a):
        return a > 0 and 5  # <-

    fails(f, nv.i32, match="`and` of a traced condition and the Python int 5")

    def g(a):
        return a > 0 or None  # <-

    fails(g, nv.i32, match="`or` of a traced condition and None")


def test_two_types_of_one_choice():
    def f(a):
        return a if a > 0 else 1.5  # <-

    error = fails(f, nv.i32, match="`x if c else y` on a traced condition gives i32 or the Python float 1.5")
    assert "convert" in error.fix

    def g(a):
        return [1] if a > 0 else [1, 2]  # <-

    fails(g, nv.i32, match="gives a list of 1 or a list of 2")


def test_a_guarded_operand_cannot_bind():
    def f(a):
        if a > 0 and (b := a + 1) > 3:  # <-
            return b

    error = fails(f, nv.i32, match="`:=` in an operand that a traced condition guards")
    assert "statement before" in error.fix

    def g(a):
        return (b := 1) if a > 0 else 2  # noqa: F841  # <-

    fails(g, nv.i32, match="`:=` in an operand")

    def first(a):
        if (b := a + 1) > 3 and a < 9:
            return b
        return 0

    assert trace(first, nv.i32).run(5) == 6


def test_an_exception_in_an_operand():
    def f(a):
        try:
            return a > 0 and {}["a"]
        except KeyError:
            return a + 1

    assert trace(f, nv.i32).run(1) == 2
