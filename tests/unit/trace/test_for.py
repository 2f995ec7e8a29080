"""`for` over nv.range: scf.for, and what it carries."""

from nvdsl.mlir.dialects import arith, scf
from nvdsl.trace.control import Range
from nvdsl.values import dtypes as nv
from nvdsl.values.traced import Unsigned
from tests.unit.trace.objects import Carrier, Plain
from tests.unit.trace.tracing import trace


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
