"""Early `return` and `continue`: folded into branches where they are at the tail."""

import ast
import textwrap

from nvdsl.trace.carry import Undefined
from nvdsl.trace.control import Range
from nvdsl.trace.exits import fold
from nvdsl.values import dtypes as nv
from tests.unit.trace.tracing import fails, trace


def folded(source):
    function = ast.parse(textwrap.dedent(source)).body[0]
    fold(function)
    return ast.unparse(function)


def test_a_return_becomes_a_branch():
    assert folded(
        """
        def f(a):
            if a:
                return 1
            b = 2
            return b
        """
    ) == (
        "def f(a):\n    if a:\n        __nv_result__ = 1\n    else:\n        b = 2\n"
        "        __nv_result__ = b\n    return __nv_result__"
    )


def test_without_an_early_return_nothing_changes():
    source = "def f(a):\n    if a:\n        b = 1\n    return b"
    assert folded(source) == source


def test_what_can_not_be_folded_stays():
    source = "def f(a):\n    for i in a:\n        if i:\n            return i\n    return 0"
    assert folded(source) == source
    both = "def f(a):\n    if a:\n        if b:\n            return 1\n        c = 2\n    d = 3"
    assert "return 1" in folded(both)


def test_traced():
    def f(a):
        if a > 10:
            return 1
        if a > 5:
            b = a - 5
            if b == 1:
                return 2
            elif b == 2:
                return 3
            else:
                return b * 10
        elif a < 0:
            return -a
        a = a + 100
        return a

    traced = trace(f, nv.i32)
    for a in range(-2, 13):
        assert traced.run(a) == f(a)


def test_leaving_early_without_a_value():
    def f(a, n):
        if a >= n:
            return
        print(a)
        if a > 2:
            return
        print(-a)

    traced = trace(f, nv.i32, nv.i32)
    assert traced.result is None
    assert traced.printed(1, 5) == ["1\n", "-1\n"]
    assert traced.printed(3, 5) == ["3\n"] and traced.printed(5, 5) == []


def test_returning_tuples():
    def f(a, b):
        if a > b:
            return a, b
        return b, a

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(1, 2) == (2, 1) and traced.run(2, 1) == (2, 1)


def test_a_return_in_a_plain_branch():
    def f(a, flag=True):
        for i in range(3):
            if flag and i == 1:
                return a + i
            a = a * 2
        return a

    assert trace(f, nv.i32).run(5) == 11


def test_continue_in_loops():
    def f(n):
        total = 0
        for i in Range(n):
            if i == 1:
                continue
            elif i == 3:
                total += 100
                if i > n - 2:
                    total += 1000
                continue
            total += 1
            if total > 4:
                total += 10
                continue
            total *= 2
        return total

    def plain(n):
        total = 0
        for i in range(n):
            if i == 1:
                continue
            elif i == 3:
                total += 100
                if i > n - 2:
                    total += 1000
                continue
            total += 1
            if total > 4:
                total += 10
                continue
            total *= 2
        return total

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in range(8)] == [plain(n) for n in range(8)]


def test_two_types_returned():
    def f(a):
        def g(x):
            if x > 0:
                return x
            return None

        return g(a) + 1  # <-

    fails(f, nv.i32, match="the returned value is used, but the `if` at .* leaves it as i32 .* and as None")

    def k(a):
        if a > 0:
            return a
        return "text"

    assert type((trace(lambda_free(k), nv.i32).result)[0]) is Undefined


def lambda_free(k):
    def wrapper(a):
        return (k(a),)

    return wrapper


def test_a_return_that_is_not_at_the_tail():
    def f(a, b):
        if a > 0:
            if b > 0:
                return 1  # <-
            b = 3
        return b

    error = fails(f, nv.i32, nv.i32, match="`return` inside an `if` on a traced condition")
    assert "assign a variable" in error.fix

    def g(a):
        try:
            if a > 0:
                return a  # <-
        finally:
            pass

    fails(g, nv.i32, match="`return` inside an `if` on a traced condition")
