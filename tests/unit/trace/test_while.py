"""`while` on a traced condition: scf.while; on a plain one: Python's loop."""

import queue

import pytest

from nvdsl.trace.control import Range
from nvdsl.values import dtypes as nv
from tests.unit.trace.objects import Plain
from tests.unit.trace.tracing import fails, trace


def test_a_traced_loop():
    def f(n):
        steps = 0
        while n > 0:
            n = n - 3
            steps += 1
        return n, steps

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in (-2, 0, 1, 7)] == [(-2, 0), (0, 0), (-2, 1), (-2, 3)]
    (op,) = traced.ops("scf.while")
    assert len(op.results) == 2
    assert len(traced.ops("arith.cmpi")) == 1  # the first evaluation of the test was taken back


def test_a_number_in_the_test():
    def f(n):
        i = 0
        total = 0
        while i < n:
            total += i
            i += 1
        return total, i

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in (0, 1, 4)] == [(0, 0), (0, 1), (6, 4)]


def test_a_plain_loop_is_pythons():
    def f(n):
        i = 0
        while i < 3:
            n = n * 2
            i += 1
        return n, i

    traced = trace(f, nv.i32)
    assert traced.run(1) == 8 and traced.result[1] == 3
    assert not traced.ops("scf.while") and len(traced.ops("arith.muli")) == 3


def test_a_plain_test_may_emit_ops():
    def f(n):
        calls = []

        def test():
            calls.append(n + 1)
            return len(calls) < 3

        while test():
            pass
        return calls[0] + calls[2], len(calls)

    traced = trace(f, nv.i32)
    assert traced.run(4) == 10 and traced.result[1] == 3


def test_a_plain_test_that_binds_values():
    def f(n):
        left = [n, n + 1, n + 2]
        total = 0
        while (x := left.pop() if left else None) is not None:
            total = total + x
        return total

    assert trace(f, nv.i32).run(1) == 6


def test_the_test_is_evaluated_once_where_it_reads_nothing_that_changes():
    evaluations = queue.SimpleQueue()  # what it holds is not watched

    def f(n, m):
        def ready():
            evaluations.put(1)
            return m > 2

        while not ready():
            n += 1
        return n

    trace(f, nv.i32, nv.i32)
    assert evaluations.qsize() == 1


def test_the_test_may_read_what_it_calls():
    def f(n):
        x = 0

        def more():
            return x < n

        while more():
            x += 2
        p = Plain(0)

        def fewer():
            return p.x < x

        while fewer():
            p.x += 3
        values = [0]
        while values[0] < x:
            values[0] += 1
        return x, p.x, values[0]

    traced = trace(f, nv.i32)
    assert traced.run(5) == (6, 6, 6) and traced.run(8) == (8, 9, 8)


def test_a_test_with_and_or():
    def f(n, limit):
        i = 0
        done = False
        while i < n and not done:
            i += 1
            done = i == limit
        while i > 3 or i == 1:
            i -= 2
        return i

    def plain(n, limit):
        i = min(n, limit) if limit > 0 and n > 0 else max(n, 0)
        while i > 3 or i == 1:
            i -= 2
        return i

    traced = trace(f, nv.i32, nv.i32)
    for n in range(-1, 9):
        for limit in (3, 5, 20):
            assert traced.run(n, limit) == plain(n, limit)


def test_names_that_the_test_binds():
    def f(n):
        total = 0
        while (half := n // 2) > 0:
            total += half
            n = n - half
        return total, half, n

    def plain(n):
        total = 0
        while (half := n // 2) > 0:
            total += half
            n = n - half
        return total, half, n

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in (1, 2, 9)] == [plain(n) for n in (1, 2, 9)]


def test_a_name_that_the_test_reads_and_binds():
    def f(n):
        passes = 0
        while (n := n - 2) > 0:
            passes += 1
        return n, passes

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in (1, 2, 9)] == [(-1, 0), (0, 0), (-1, 4)]


def test_else_runs_after_the_loop():
    def f(n):
        while n > 0:
            n -= 2
        else:
            n = n * 10
        return n

    assert trace(f, nv.i32).run(5) == -10


def test_continue():
    def f(n):
        total = 0
        while n > 0:
            n -= 1
            if n == 3:
                continue
            total += n
        return total

    assert trace(f, nv.i32).run(6) == 5 + 4 + 2 + 1


def test_continue_under_a_plain_condition():
    def f(n):
        while n > 0:
            n -= 1
            for _ in range(1):
                pass
            if True:
                continue
            n -= 100
        return n

    assert trace(f, nv.i32).run(6) == 0


def test_nested():
    def f(n):
        total = 0
        while n > 0:
            m = n
            while m > 0:
                m -= 2
                total += 1
            for i in Range(m, 1):
                total -= i
            n -= 1
        return total

    def plain(n):
        total = 0
        while n > 0:
            m = n
            while m > 0:
                m -= 2
                total += 1
            for i in range(m, 1):
                total -= i
            n -= 1
        return total

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in range(6)] == [plain(n) for n in range(6)]


def test_in_a_traced_branch():
    def f(n, m):
        if n > 3:
            while m > n:
                m -= 1
        return m

    traced = trace(f, nv.i32, nv.i32)
    assert (traced.run(5, 9), traced.run(1, 9)) == (5, 9)


def test_an_exception_in_the_test_or_the_body():
    def f(n):
        try:
            while n > 0 and fail():
                pass
        except ZeroDivisionError:
            n = n + 1
        try:
            while n > 0:
                n = n - 1
                raise KeyError
        except KeyError:
            pass
        return 5

    def fail():
        return 1 / 0

    assert not trace(f, nv.i32).ops("scf.while")


def test_the_test_turns_traced():
    def f(n):
        i = 0
        while i < 3:  # <-
            i = i + n

    error = fails(f, nv.i32, match="was a plain Python value at first, and is traced after a pass")
    assert "nv.i32(0)" in error.fix


def test_break_and_return():
    def f(n):
        while n > 0:
            n -= 1
            break  # <-

    fails(f, nv.i32, match="`break` inside a `while` on a traced condition")

    def g(n):
        while True:
            n -= 1
            if n < 0:
                break  # <-

    fails(g, nv.i32, match="`break` inside an `if` on a traced condition")

    def h(n):
        while n > 0:
            return n  # <-

    fails(h, nv.i32, match="`return` inside a `while` on a traced condition")


def test_break_in_a_plain_loop():
    def f(n):
        while True:
            n = n * 3
            break
        return n

    assert trace(f, nv.i32).run(2) == 6


def test_the_type_changes():
    def f(n):
        x = 1
        while n > 0:
            n -= 1
            x = x * 0.5  # <-
        return x

    fails(f, nv.i32, match="`x` is i32 \\(the Python int 1\\) before the loop .* and f32 after a pass")


def test_a_value_only_inside():
    def f(n):
        while n > 0:
            n -= 1
            y = n
        return y + 1  # <-

    fails(f, nv.i32, match="`y` is used, but it has a value only inside the loop")


@pytest.mark.parametrize("value, what", [(nv.i32, "i32"), (nv.f32, "f32")])
def test_a_condition_that_is_no_bool(value, what):
    def f(n):
        while n:  # <-
            n = n - 1

    assert fails(f, value, match=f"`while` takes a condition, and was given a value of type {what}").fix
