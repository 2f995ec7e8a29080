"""A variable that a traced `if` leaves without a value: each use of it is an error, with both lines."""

import pytest

from nvdsl.errors import TraceError
from nvdsl.trace.carry import Undefined
from nvdsl.values import dtypes as nv
from nvdsl.values.traced import Value
from tests.unit.trace.tracing import fails, trace


def test_assigned_in_one_branch_only():
    def f(a):
        if a > 0:
            x = a
        return x + 1  # <-

    line = f.__code__.co_firstlineno + 1
    error = fails(f, nv.i32, match="`x` is used, but it has a value only where the `if` at .* is true")
    assert f"{__file__}:{line} is true (line {line + 1})" in error.message

    def g(a):
        if a > 0:
            pass
        else:
            x = a
        return -x  # <-

    fails(g, nv.i32, match=f"is false \\(line {g.__code__.co_firstlineno + 4}\\)")


def test_deleted_in_one_branch():
    def f(a):
        x = 1
        if a > 0:
            del x
        return [x][0] + 1  # <-

    fails(f, nv.i32, match="`x` is used, but it has a value only where")


def test_two_types():
    def f(a):
        if a > 0:
            x = a
        else:
            x = 1.5
        return x * 2  # <-

    line = f.__code__.co_firstlineno
    error = fails(f, nv.i32, match="`x` is used")
    assert f"as i32 where it is true (line {line + 2})" in error.message
    assert f"as the Python float 1.5 where it is false (line {line + 4})" in error.message
    assert "one type" in error.fix

    def signs(a, b):
        if a > 0:
            x = a
        else:
            x = b
        return x + 1  # <-

    fails(signs, nv.i32, nv.u32, match="as i32 where .* and as u32 where")


def test_only_the_leaf_that_differs_is_undefined():
    def f(a):
        pair = (a, 1)
        if a > 0:
            pair = (a + 1, "one")
        return pair[0], pair[1]

    first, second = trace(f, nv.i32).result
    assert isinstance(first, Value) and type(second) is Undefined


USES = {
    "operator": lambda x: x + 1,
    "reflected": lambda x: 1 - x,
    "comparison": lambda x: x == 1,
    "call": lambda x: x(),
    "attribute": lambda x: x.name,
    "set": lambda x: setattr(x, "name", 1),
    "element": lambda x: x[0],
    "truth": lambda x: bool(x),
    "iteration": lambda x: list(x),
    "str": lambda x: f"{x}",
    "hash": lambda x: {x: 1},
    "isinstance": lambda x: isinstance(x, int),
    "conversion": lambda x: nv.f32(x),
    "builtin": lambda x: max(x, 1),
    "with": lambda x: x.__enter__(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_every_use_of_an_undefined_variable_is_an_error(use):
    def f(a):
        if a > 0:
            x = a
        use(x)

    with pytest.raises(TraceError, match="`x` is used, but it has a value only where"):
        trace(f, nv.i32)


def test_an_undefined_variable_that_is_assigned_is_fine():
    def f(a):
        if a > 0:
            x = a
        x = 3
        if a > 1:
            x = x + a
        return x

    assert trace(f, nv.i32).run(4) == 7


def test_undefined_on_one_way_and_then_assigned_on_both():
    def f(a):
        if a > 0:
            x = a
        if a > 1:
            x = 1
        else:
            x = 2
        return x

    assert trace(f, nv.i32).run(4) == 1


def test_an_undefined_variable_has_a_repr():
    def f(a):
        if a > 0:
            x = a
        return repr(x)

    assert "`x`: it has a value only where" in trace(f, nv.i32).result
