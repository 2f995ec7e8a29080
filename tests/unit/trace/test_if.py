"""`if` on a traced condition: scf.if, what is merged, and what can't be."""

from collections import namedtuple

import numpy as np
import pytest

from nvdsl import dtypes as nv
from nvdsl.errors import TraceError
from nvdsl.trace.carry import Undefined
from nvdsl.values import Unsigned, Value
from tests.unit.trace.tracing import fails, trace

Pair = namedtuple("Pair", "left right")


class Carrier:
    """An object with the carry protocol."""

    def __init__(self, a, b, label="carrier"):
        self.a, self.b, self.label = a, b, label

    def __nv_values__(self):
        return [self.a, self.b]

    def __nv_rebuild__(self, values):
        return Carrier(*values, self.label)


class Plain:
    def __init__(self, x):
        self.x = x


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


def test_values_that_are_no_numbers():
    def f(a):
        from nvdsl.mlir.dialects import llvm

        pointer = llvm.mlir_zero(llvm.PointerType.get())
        other = llvm.mlir_zero(llvm.PointerType.get())
        if a > 0:
            p = pointer
        else:
            p = other
        return p

    result = trace(f, nv.i32).result
    assert str(result.type) == "!llvm.ptr"


def test_tuples_lists_and_dicts():
    def f(a, b):
        t, s, d, p, n = (a, (b, 1)), [a, b], {"k": a}, Pair(a, 2), (1, "text", None)
        if a > b:
            t, s, d, p, n = (b, (a, 2)), [b, a], {"k": b}, Pair(3, a), (2, "text", None)
        return t[0], t[1][0], t[1][1], s[0], s[1], d["k"], p.left, p.right, n[0], n

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(5, 3) == (3, 5, 2, 3, 5, 3, 3, 5, 2)
    assert traced.run(3, 5) == (3, 5, 1, 3, 5, 3, 3, 2, 1)
    assert traced.result[-1][1:] == ("text", None)
    assert type(traced.result[-1]) is tuple


def test_elements_are_put_back_in_place():
    def f(a, b):
        values = [a, b, 7]
        table = {"x": a}
        alias, inner = values, (values, table)
        if a > 0:
            values[0] = b
            table["x"] = values[0] + 1
        else:
            values[1] = 5
        return alias[0], alias[1], alias[2], inner[1]["x"], alias is values

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(1, 2) == (2, 2, 3)
    assert traced.run(-1, 2) == (-1, 5, -1)
    assert traced.result[2] == 7 and traced.result[4] is True


def test_a_new_list_leaves_the_old_one_alone():
    def f(a, b):
        values = old = [a, b]
        if a > 0:
            values = [b, a]
        return values[0], old[0]

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(1, 2) == (2, 1)
    assert traced.run(-1, 2) == (-1, -1)


def test_the_carry_protocol():
    def f(a, b):
        state = Carrier(a, b, "kept")
        if a > 0:
            state = Carrier(b, state.a)
        return state.a, state.b, state.label

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(1, 2) == (2, 1) and traced.run(-1, 2) == (-1, 2)


def test_a_carrier_that_is_changed_in_place_is_found_as_it_was():
    def f(a, b):
        state = Carrier(a, b)
        if a > 0:
            state.a = b
            x = state.a
        else:
            x = state.a
        return x, state.a

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(1, 2) == (2, 2) and traced.run(-1, 2) == (-1, -1)


def test_attributes_of_any_object():
    def f(a, b):
        outer = Plain(Plain(a))
        outer.y = 0
        inner = outer.x
        if a > b:
            outer.x.x = b
            outer.y += 1
            inner.new = 3
        return inner.x, outer.y

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(5, 3) == (3, 1) and traced.run(3, 5) == (3, 0)


def test_attributes_of_a_closure_variable():
    state = Plain(0)

    def f(a):
        state.x = a
        if a > 3:
            state.x = 3
        return state.x

    traced = trace(f, nv.i32)
    assert (traced.run(9), traced.run(2)) == (3, 2)


def test_a_renewed_object_counts_as_a_whole():
    def f(a):
        p = Plain(1)
        if a > 0:
            p = Plain(2)
            p.x = a
        return p.x  # <-

    error = fails(f, nv.i32, match="as a Python Plain where it is true .* and as a Python Plain where")
    assert "__nv_rebuild__" in error.fix


def test_nested_functions_assign_and_capture():
    def f(a, b):
        x = a
        y = b

        def swap():
            nonlocal x, y
            x, y = y, x

        def read():
            return x

        if a > b:
            swap()
        return read(), y

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(5, 3) == (3, 5) and traced.run(3, 5) == (3, 5)


def test_a_closure_that_merges_its_nonlocal():
    def f(a, b):
        total = 0

        def add(x):
            nonlocal total
            if x > 2:
                total += x

        add(a)
        add(b)
        return total

    traced = trace(f, nv.i32, nv.i32)
    assert [traced.run(*p) for p in ((1, 1), (3, 1), (3, 4))] == [0, 3, 7]


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
                raise KeyError("user's")
        except KeyError as error:
            caught = str(error)
        return caught

    traced = trace(f, nv.i32)
    assert traced.result == '"user\'s"'
    assert not traced.ops("scf.if")

    def g(a):
        if a > 0:
            raise KeyError("user's")

    with pytest.raises(KeyError, match="user's") as caught:
        trace(g, nv.i32)
    assert caught.traceback[-1].lineno + 1 == g.__code__.co_firstlineno + 2


def test_deep_inside_a_frame_that_fails_the_insertion_point_is_restored():
    def f(a, b):
        try:
            if a > 0:
                while a > b:
                    for x in [1]:
                        if b > x:
                            raise KeyError
        except KeyError:
            pass
        return a + b

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(1, 2) == 3
    assert not traced.ops("scf.while")


def test_a_plain_object_on_both_ways_stays():
    marker = object()

    def f(a):
        if a > 0:
            x = marker
        else:
            x = marker
        return x

    assert trace(f, nv.i32).result is marker


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
