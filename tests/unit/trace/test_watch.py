"""State that a call in a traced region changes: an error, since it would change once, while tracing."""

import contextlib
import dataclasses
import functools
import linecache

import pytest

from nvdsl.errors import TraceError
from nvdsl.trace.control import Range
from nvdsl.values import dtypes as nv
from tests.unit.trace.objects import Carrier
from tests.unit.trace.tracing import define, fails, trace


class Pipe:
    def __init__(self, phase=0):
        self.phase = phase

    def advance(self):
        self.phase = self.phase ^ 1
        return self.phase



@dataclasses.dataclass
class Cursor:
    at: object = 0

    def move(self):
        self.at = self.at + 1


def call(function):
    return function()


def changes(function, *types, match, line):
    """Tracing ``function`` names ``match`` as changed at ``line``, the text of a line of this file."""
    with pytest.raises(TraceError, match=match) as caught:
        trace(function, *types)
    where = caught.value.where
    assert where is not None and where.file == __file__
    assert linecache.getline(__file__, where.line).strip() == line
    return caught.value


def test_a_method_in_a_loop():
    def f(n):
        pipe = Pipe()
        for _ in Range(n):
            pipe.advance()

    advance = "self.phase = self.phase ^ 1"
    error = changes(f, nv.i32, match="a `for` over nv.range .* changes `pipe.phase` without carrying it", line=advance)
    assert "assign it in the statement: `pipe.phase = ...`" in error.fix

    def g(n):
        pipe = Pipe()
        while n > 0:
            n -= 1
            pipe.advance()

    changes(g, nv.i32, match="a `while` on a traced condition .* changes `pipe.phase`", line=advance)


def test_dataclasses():
    def f(n):
        cursor = Cursor()
        for _ in Range(n):
            cursor.move()

    changes(f, nv.i32, match="changes `cursor.at`", line="self.at = self.at + 1")


def test_a_method_in_a_branch():
    def f(a):
        pipe = Pipe(a)
        advance = pipe.advance
        del pipe
        if a > 0:
            pass
        else:
            advance()

    changes(
        f, nv.i32, match="an `if` on a traced .* changes `advance.phase`", line="self.phase = self.phase ^ 1"
    )


def test_a_method_in_a_guarded_operand():
    def f(a):
        pipe = Pipe(a)
        return a > 0 and pipe.advance() > 0

    def g(a):
        pipe = Pipe(a)
        return pipe.advance() if a > 0 else a

    for function in (f, g):
        match = "an operand that a traced condition guards .* changes `pipe.phase`"
        changes(function, nv.i32, match=match, line="self.phase = self.phase ^ 1")


def test_a_variable_of_another_function():
    def f(n):
        phase = 0

        def advance():
            nonlocal phase
            phase ^= 1  # <-

        def helper(step):
            for _ in Range(n):
                step()

        helper(advance)

    fails(f, nv.i32, match="a `for` over nv.range .* changes `phase` without carrying it")


def test_through_a_function_that_calls_it():
    def f(a):
        d = a

        def bump():
            nonlocal d
            d = d + 1  # <-
            return d

        def outer():
            return bump()

        return a > 0 and outer() > 3

    fails(f, nv.i32, match="changes `d` without carrying it")


def test_the_test_of_a_while():
    def f(n):
        s = [n]

        def more():
            s[0] -= 1  # <-
            return n > 0

        while more():
            pass

    fails(f, nv.i32, match="the test of a `while` .* changes `s\\[0\\]`")


def test_what_is_changed_and_put_back():
    def f(n):
        pipe = Pipe()

        def during(g):
            pipe.phase += 1
            result = g()
            pipe.phase -= 1
            return result

        total = 0
        for _ in Range(n):
            total += during(lambda: n + pipe.phase)
        return total, pipe.phase

    assert trace(f, nv.i32).result[1] == 0


def test_state_is_put_back_for_the_second_trace():
    known = {}

    def f(n):
        def look(i):
            if "made" not in known:
                known["made"] = i  # <-

        for i in Range(n):
            look(i)

    fails(f, nv.i32, match="changes `known`")
    assert not known


def test_a_property_that_is_computed_once():
    class Sizes:
        @functools.cached_property
        def rows(self):
            return 4

    sizes = Sizes()

    def f(n):
        for _ in Range(n):
            n = n + sizes.rows
        return n

    assert trace(f, nv.i32).run(3) == 15


def test_globals():
    source = """
counter, seen = 0, []
def put():
    global counter
    counter += 1
def note(x):
    seen.append(x)
def f(n):
    for i in span(n):
        PUT
"""
    for call, name, line in (("put()", "counter", 5), ("note(i)", "seen", 7)):
        function = define(source.replace("PUT", call), span=Range)
        names = function.__globals__
        with pytest.raises(TraceError, match=f"changes `{name}` without") as caught:
            trace(names["f"], nv.i32)
        assert caught.value.where.line == line and (names["counter"], names["seen"]) == (0, [])


def test_what_is_assigned_there_is_carried():
    def f(n):
        pipe = Pipe()
        for _ in Range(n):
            pipe.phase = pipe.phase ^ 1
        if n > 2:
            pipe.phase = pipe.phase + 10
        return pipe.phase

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in (0, 1, 2, 3)] == [0, 1, 0, 11]


def test_calls_before_and_after_are_pythons():
    def f(n):
        pipe = Pipe()
        pipe.advance()
        for _ in Range(n):
            n = n + pipe.phase
        pipe.advance()
        return n, pipe.phase

    assert trace(f, nv.i32).result[1] == 0


def test_what_the_standard_library_keeps_is_left_alone():
    def f(n):
        stack = contextlib.ExitStack()
        for _ in Range(n):
            stack.callback(len, [])
        stack.close()
        return n

    assert trace(f, nv.i32).run(3) == 3


def test_the_rest_of_an_object_with_the_carry_protocol():
    def f(n):
        state = Carrier(n, n)
        for _ in Range(n):
            call(lambda: setattr(state, "label", 3))  # <-
        return state.label

    fails(f, nv.i32, match="changes `state.label`")


def test_a_plain_condition_changes_what_it_likes():
    def f(n):
        pipe = Pipe()
        if pipe.phase == 0 and pipe.advance() == 1:
            pipe.advance()
        for _ in range(3):
            pipe.advance()
        return pipe.phase

    assert trace(f, nv.i32).result == 1
