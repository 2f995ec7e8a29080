"""`for` over nv.range: scf.for, what it carries, and what it can't."""

import pytest

from nvdsl import dtypes as nv
from nvdsl.errors import TraceError
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, scf
from nvdsl.trace.control import Range
from nvdsl.values import Unsigned
from tests.unit.trace.test_if import Carrier, Plain
from tests.unit.trace.tracing import fails, trace


def test_a_sum():
    def f(n):
        total = 0
        for i in Range(n):
            total += i
        return total

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in (-1, 0, 1, 5)] == [0, 0, 0, 10]
    (op,) = traced.ops("scf.for")
    assert len(op.results) == 1
    assert str(op.regions[0].blocks[0].arguments[0].type) == "i32"


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
            seen.append(i)

    seen = []
    traced = trace(f, *types)
    (op,) = traced.ops("scf.for")
    assert seen[0].dtype is result
    assert isinstance(seen[0], Unsigned) is result.is_unsigned
    assert ("unsignedCmp" in op.attributes) is result.is_unsigned
    traced.module.operation.verify()


def test_python_bounds_are_traced_too_and_pythons_range_unrolls():
    def f():
        total = nv.i32(0)
        for i in Range(3):
            for j in range(5, 7):
                total += i * j
        return total

    traced = trace(f)
    assert len(traced.ops("scf.for")) == 1 and len(traced.ops("arith.muli")) == 2
    assert traced.run() == (1 + 2) * (5 + 6)


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


def test_only_what_passes_from_pass_to_pass_is_carried():
    def f(n):
        total = 0
        for i in Range(n):
            t = i * 2
            total += t
        for i in Range(n):
            t = i
            total += t
        return total

    traced = trace(f, nv.i32)
    assert [len(op.results) for op in traced.ops("scf.for")] == [1, 1]
    assert traced.run(3) == 6 + 3


def test_read_before_written_is_carried_though_dead_after():
    def f(n):
        previous = -1
        for i in Range(n):
            print(previous)
            previous = i

    assert trace(f, nv.i32).printed(3) == ["-1\n", "0\n", "1\n"]


def test_nested_loops_and_branches():
    def f(n, m):
        a, b = 0, 1
        for i in Range(n):
            for j in Range(m):
                if i > j:
                    a, b = b, a + b
                elif i == j:
                    b += 1
            a += i
        return a, b

    def plain(n, m):
        a, b = 0, 1
        for i in range(n):
            for j in range(m):
                if i > j:
                    a, b = b, a + b
                elif i == j:
                    b += 1
            a += i
        return a, b

    traced = trace(f, nv.i32, nv.i32)
    for n in range(5):
        for m in range(5):
            assert traced.run(n, m) == plain(n, m)


def test_numbers_become_values_and_stay_numbers_if_nothing_changes_them():
    def f(n):
        i, x, flag, same, text = 0, 0.0, False, 7, "a"
        for k in Range(n):
            i = i + k
            x = x * 2.0
            flag = i > 3
            if text == "b":
                same = 8
                text = "c"
        return i, x, flag, same, text

    i, x, flag, same, text = trace(f, nv.i32).result
    assert (i.dtype, x.dtype, flag.dtype) == (nv.i32, nv.f32, nv.bool_)
    assert (same, text) == (7, "a")


def test_a_number_assigned_in_the_body_takes_the_carried_type():
    def f(n, x):
        for i in Range(n):
            if i > 2:
                x = 2
            print(x)
            x = 1
        return x

    traced = trace(f, nv.i32, nv.i64)
    assert traced.result.dtype is nv.i64
    assert (traced.run(0, 9), traced.run(4, 9)) == (9, 1)
    assert traced.printed(4, 9) == ["9\n", "1\n", "1\n", "2\n"]


def test_unsigned_stays_unsigned():
    def f(n, x):
        for i in Range(n):
            x = x + i
        return x

    assert isinstance(trace(f, nv.i32, nv.u32).result, Unsigned)


def test_containers_and_the_carry_protocol():
    def f(n, a):
        state = Carrier(a, 0)
        pair, table = (a, [1, 2]), {"k": 0}
        for i in Range(n):
            state = Carrier(state.b, state.a + i, "new")
            pair = (pair[0] + 1, [pair[1][1], pair[1][0]])
            table["k"] += i
        return state.a, state.b, state.label, pair[0], pair[1][0], table["k"]

    def plain(n, a):
        s, p, k = (a, 0), (a, [1, 2]), 0
        for i in range(n):
            s, p, k = (s[1], s[0] + i), (p[0] + 1, p[1][::-1]), k + i
        return *s, p[0], p[1][0], k

    traced = trace(f, nv.i32, nv.i32)
    assert traced.result[2] == "carrier"
    for n in range(4):
        assert traced.run(n, 7) == plain(n, 7)


def test_elements_in_place_and_aliases():
    def f(n):
        values = [0, 10]
        alias = values
        for i in Range(n):
            values[0] += i
            values[1] -= alias[0]
        return alias[0], alias[1], alias is values

    traced = trace(f, nv.i32)
    assert traced.run(3) == (3, 10 - 0 - 1 - 3) and traced.result[2]


def test_attributes_of_any_object():
    def f(n):
        p = Plain(0)
        p.inner = Plain(5)
        inner = p.inner
        for i in Range(n):
            p.x += i
            p.inner.x -= p.x
        return p.x, inner.x

    assert trace(f, nv.i32).run(3) == (3, 5 - 0 - 1 - 3)


def test_nonlocal_helpers():
    def f(n):
        phase = 0

        def flip():
            nonlocal phase
            phase = phase ^ 1
            return phase

        for _ in Range(n):
            flip()
        return phase

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in range(4)] == [0, 1, 0, 1]


def test_else_runs_after_the_loop():
    def f(n):
        x = 0
        for i in Range(n):
            x += i
        else:
            x = x * 10
        return x

    assert trace(f, nv.i32).run(4) == 60


def test_continue():
    def f(n):
        total = 0
        for i in Range(n):
            if i == 2:
                continue
            if i > 5:
                total += 100
                continue
            total += i
        return total

    assert trace(f, nv.i32).run(8) == 0 + 1 + 3 + 4 + 5 + 200


def test_continue_under_a_plain_condition():
    def f(n, skip):
        total = 0
        for i in Range(n):
            total += i
            for _ in range(2):
                if skip:
                    break
                total += 1
            if skip:
                continue
            total += 10
        return total

    assert trace(lambda_of(f, False), nv.i32).run(3) == 3 + 6 + 30
    assert trace(lambda_of(f, True), nv.i32).run(3) == 3


def lambda_of(f, skip):
    def g(n):
        return f(n, skip)

    return g


def test_llvm_style_loops_run_as_in_python():
    def f(n):
        from nvdsl.mlir.extras import types as T

        first = arith.constant(T.i32(), 3)
        for i, carried, result in scf.for_(0, 10, 2, [first]):
            more = carried + arith.index_cast(T.i32(), i)
            if more > n:
                more = n
            scf.yield_([more])
            kept = result
        for i in scf.for_(2):
            print(i)
            scf.yield_([])
        return kept

    traced = trace(f, nv.i32)
    assert traced.run(100) == 3 + 0 + 2 + 4 + 6 + 8 and traced.run(4) == 4
    assert traced.printed(9) == ["0\n", "1\n"]


def test_an_exception_surfaces_as_itself_and_leaves_no_op():
    def f(n):
        try:
            for i in Range(n):
                raise KeyError(i)
        except KeyError:
            return n + 1

    traced = trace(f, nv.i32)
    assert not traced.ops("scf.for") and traced.run(1) == 2


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
