"""State that a call in a traced region changes: an error, since it would change once, while tracing."""

import contextlib
import dataclasses
from types import SimpleNamespace

import pytest

from nvdsl import dtypes as nv
from nvdsl.trace.control import Range
from tests.unit.trace.objects import Carrier
from tests.unit.trace.tracing import fails, trace


class Pipe:
    def __init__(self, phase=0):
        self.phase = phase
        self.label = None
        self.parts = []

    def advance(self):
        self.phase = self.phase ^ 1
        return self.phase

    def note(self):
        self.label = "seen"
        self.parts.append(1)


@dataclasses.dataclass
class Cursor:
    at: object = 0

    def move(self):
        self.at = self.at + 1


def call(function):
    return function()


def test_a_method_in_a_loop():
    def f(n):
        pipe = Pipe()
        for _ in Range(n):  # <-
            pipe.advance()

    error = fails(f, nv.i32, match="a `for` over nv.range changes `pipe.phase` without carrying it")
    assert "assign it there: `pipe.phase = ...`" in error.fix

    def g(n):
        pipe = Pipe()
        while n > 0:  # <-
            n -= 1
            pipe.advance()

    fails(g, nv.i32, match="a `while` on a traced condition changes `pipe.phase`")


def test_dataclasses_and_namespaces():
    def f(n):
        cursor = Cursor()
        for _ in Range(n):  # <-
            cursor.move()

    fails(f, nv.i32, match="changes `cursor.at`")

    def g(n):
        state = SimpleNamespace(count=0)

        def count():
            state.count += 1

        for _ in Range(n):  # <-
            count()

    fails(g, nv.i32, match="changes `state.count`")


def test_a_method_in_a_branch():
    def f(a):
        pipe = Pipe(a)
        if a > 0:  # <-
            pipe.advance()

    fails(f, nv.i32, match="an `if` on a traced condition changes `pipe.phase`")

    def g(a):
        pipe = Pipe(a)
        advance = pipe.advance
        del pipe
        if a > 0:
            pass
        else:
            advance()  # the `if` is named, not the call

    with pytest.raises(Exception, match="changes `advance.phase`"):
        trace(g, nv.i32)


def test_a_method_in_a_guarded_operand():
    def f(a):
        pipe = Pipe(a)
        return a > 0 and pipe.advance() > 0  # <-

    fails(f, nv.i32, match="an operand that a traced condition guards changes `pipe.phase`")

    def g(a):
        pipe = Pipe(a)
        return pipe.advance() if a > 0 else a  # <-

    fails(g, nv.i32, match="an operand that a traced condition guards changes `pipe.phase`")


def test_a_variable_of_another_function():
    def f(n):
        phase = 0

        def advance():
            nonlocal phase
            phase ^= 1

        def helper(step):
            for _ in Range(n):
                step()

        helper(advance)

    with pytest.raises(Exception, match="a `for` over nv.range changes `phase` without carrying it") as caught:
        trace(f, nv.i32)
    assert caught.value.where.line == f.__code__.co_firstlineno + 8


def test_through_a_function_that_calls_it():
    def f(a):
        d = a

        def bump():
            nonlocal d
            d = d + 1
            return d

        def outer():
            return bump()

        return a > 0 and outer() > 3  # <-

    fails(f, nv.i32, match="changes `d` without carrying it")


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


def test_what_is_no_number_may_change():
    def f(n):
        pipe = Pipe()
        for _ in Range(n):
            pipe.note()
        return pipe.label

    assert trace(f, nv.i32).result == "seen"


def test_objects_with_the_carry_protocol_and_of_others_are_left_alone():
    def f(n):
        state = Carrier(n, n)
        stack = contextlib.ExitStack()
        for _ in Range(n):
            call(lambda: setattr(state, "label", 3))
            stack.callback(len, [])
        return state.label

    assert trace(f, nv.i32).result == 3


def test_a_plain_condition_changes_what_it_likes():
    def f(n):
        pipe = Pipe()
        if pipe.phase == 0 and pipe.advance() == 1:
            pipe.advance()
        for _ in range(3):
            pipe.advance()
        return pipe.phase

    assert trace(f, nv.i32).result == 1
