"""`for` over nv.range: what a traced loop can't carry, and how it can't be left."""

import pytest

from nvdsl.trace.control import Range
from nvdsl.values import dtypes as nv
from tests.unit.trace.objects import Plain
from tests.unit.trace.tracing import fails, trace


def test_the_type_changes():
    def f(n):
        x = 0
        for i in Range(n):
            print(i)
            x = x + 1.5  # <-
        return x

    error = fails(f, nv.i32, match="`x` is i32 \\(the Python int 0\\) before the loop at .* and f32 after a pass")
    assert f"{__file__}:{f.__code__.co_firstlineno + 2} " in error.message
    assert error.fix == "write `x = nv.f32(0)` before the loop"

    def g(n, x):
        for _ in Range(n):
            x = nv.f32(x)  # <-
        return x

    error = fails(g, nv.i32, nv.f16, match="`x` is f16 before the loop .* and f32 after a pass")
    assert error.fix == "write `x = nv.f16(x)` at the end of the body"

    def h(n, x):
        for _ in Range(n):
            x = nv.i32(x)  # <-
        return x

    fails(h, nv.i32, nv.u32, match="`x` is u32 before the loop .* and i32 after a pass")


@pytest.mark.parametrize(
    "first, later, match",
    [
        (None, lambda i: i, "`x` is None before the loop at .* and i32 after a pass"),
        (0, lambda i: None, "`x` is i32 .* and None after a pass"),
        ("a", lambda i: "b", "`x` is a Python str .* and a Python str after"),
        ((), lambda i: (i,), "`x` is a tuple of 0 .* and a tuple of 1"),
        ([], lambda i: [1], "`x` is a list of 0 .* and a list of 1"),
        (Plain(1), lambda i: Plain(2), "a Python Plain before .* and a Python Plain after"),
        (True, lambda i: 1, "`x` is bool_ .* and the Python int 1"),
        (1, lambda i: 1.0, "`x` is i32 .* and the Python float 1.0"),
    ],
)
def test_what_cannot_be_carried(first, later, match):
    def f(n):
        x = first
        for i in Range(n):
            print(x)
            x = later(i)  # <-

    fails(f, nv.i32, match=match)


def test_an_element_changes_its_type():
    def f(n):
        values = [0, 1]
        for _ in Range(n):
            values[1] = values[0] * 0.5  # <-

    fails(f, nv.i32, match="an element of `values` is i32 \\(the Python int 1\\) before .* and f32 after")


def test_a_value_only_inside():
    def f(n):
        for i in Range(n):
            y = i
        return y + 1  # <-

    line = f.__code__.co_firstlineno
    error = fails(f, nv.i32, match="`y` is used, but it has a value only inside the loop")
    assert f"at {__file__}:{line + 1} (assigned at line {line + 2})" in error.message

    def g(n):
        tile = Plain(1)
        for i in Range(n):
            tile = Plain(i)
            print(tile.x)
        return tile.x  # <-

    fails(g, nv.i32, match="`tile` is used, but it has a value only inside the loop")


def test_a_captured_name_in_two_loops():
    def f(n):
        seen = 0
        for i in Range(n):
            part = Plain(i)

            def read():
                return part.x  # noqa: B023

            seen += read()
        for i in Range(n):
            part = Plain(2 * i)
            seen += (lambda: part.x)()
        return seen

    assert trace(f, nv.i32).run(3) == 3 + 6


def test_the_loop_variable_after_the_loop():
    def f(n):
        for i in Range(n):
            print(i)
        return i * 2  # <-

    error = fails(f, nv.i32, match="`i` is used, but it is the variable of the traced loop at .*, which has ended")
    assert error.fix == "keep it in another variable: `last = i`"

    def g(n):
        last = -1
        for i in Range(n):
            last = i
        return last

    assert trace(g, nv.i32).run(3) == 2


def test_read_before_it_is_assigned():
    def f(n):
        for i in Range(n):
            print(x)  # noqa: F821  # <-
            x = i  # noqa: F841

    fails(f, nv.i32, match="`x` is used, but it is not assigned before the loop at")


def test_break_and_return():
    def f(n):
        for i in Range(n):
            if i > 3:
                break  # <-

    assert "carry a bool" in fails(f, nv.i32, match="`break` inside an `if` on a traced condition").fix

    def g(n):
        for _ in Range(n):
            break  # <-

    fails(g, nv.i32, match="`break` inside a `for` over nv.range")

    def h(n):
        for i in Range(n):
            for j in range(3):
                if j:
                    return i  # <-

    fails(h, nv.i32, match="`return` inside a `for` over nv.range")

    def k(n):
        for i in Range(n):
            if i > 3:
                if i > 5:
                    continue  # <-
                print(i)
            print(n)

    fails(k, nv.i32, match="`continue` inside an `if` on a traced condition")
