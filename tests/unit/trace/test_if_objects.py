"""`if` on a traced condition: what is merged of containers, objects and closures."""

from collections import namedtuple

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import memref
from nvdsl.trace.carry import Undefined
from nvdsl.trace.control import Range
from nvdsl.values import dtypes as nv
from tests.unit.trace.objects import Carrier, Plain
from tests.unit.trace.tracing import fails, trace

Pair = namedtuple("Pair", "left right")


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


def test_arrays_keep_their_dtype():
    def f(a):
        type = ir.MemRefType.get([4], nv.i8.ir)
        first, second, third = (memref.alloca(type, [], []) for _ in range(3))
        first.remember_dtype(nv.u8), second.remember_dtype(nv.u8)
        x, y = first, first
        if a > 0:
            x, y = second, third
        for i in Range(a):
            if i > 2:
                x = first
        return x, y

    x, y = trace(f, nv.i32).result
    assert x.dtype is nv.u8 and str(x.type) == "memref<4xi8>"
    assert type(y) is Undefined  # u8 on one way, i8 on the other


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


def test_a_key_that_is_renamed_is_put_back():
    def f(a):
        table = {"x": a}
        if a > 0:
            table["x"] = a + 1
            y = table["x"]
        else:
            y = table["x"]
        return y, list(table)

    traced = trace(f, nv.i32)
    assert (traced.run(1), traced.run(-1)) == (2, -1) and traced.result[1] == ["x"]

    def g(a):
        table = {"x": a}
        if a > 0:  # <-
            del table["x"]
            table["y"] = a
        return table["x"]

    fails(g, nv.i32, match="the branches of an `if` on a traced condition leave other elements in `table`")


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


class Lazy:
    """Emits its value when it is asked for it, as an accumulator does that nobody has used."""

    def __init__(self, a=None):
        self.a = a

    def __nv_values__(self):
        return [nv.i32(0) if self.a is None else self.a]

    def __nv_rebuild__(self, values):
        return Lazy(*values)


def test_a_carrier_that_emits_its_value():
    def f(a, n):
        first, second, third, fourth = Lazy(), Lazy(), Lazy(), Lazy()
        if a > 0:
            first = Lazy(a)
        else:
            second = Lazy(a)
        for i in Range(n):
            third = Lazy(i)
        while n > 3:
            n -= 1
            fourth = Lazy(n)
        return first.a, second.a, third.a, fourth.a

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(7, 5) == (7, 0, 4, 3) and traced.run(-7, 0) == (0, -7, 0, 0)


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


def test_a_plain_object_on_both_ways_stays():
    marker = object()

    def f(a):
        if a > 0:
            x = marker
        else:
            x = marker
        return x

    assert trace(f, nv.i32).result is marker
