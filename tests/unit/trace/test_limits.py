"""Loops that Python would run without end while it traces, and helpers that call themselves."""

import itertools
import sys
import time

import pytest

import nvdsl as nv
from nvdsl.errors import ArgumentError, TraceError
from tests.unit.kernels import array, refused
from tests.unit.kernels import trace as trace_kernel
from tests.unit.trace.tracing import define, fails, trace


def test_a_loop_that_nothing_leaves():
    def f(a):
        n = 0
        while True:  # <-
            a = a + 1
            for _ in range(3):
                n += 1
                if n == 2:
                    continue
        return a

    start = time.process_time()
    assert "nv.range" in fails(f, nv.i32, match="`while` on a plain true condition, and nothing in the loop leaves").fix
    assert time.process_time() - start < 1


def test_loops_that_something_leaves():
    def f(a):
        n = 0
        while True:
            n += 1
            if n > 5:
                break
        while 1:
            a = a + n
            if n == 6:
                return a

    assert trace(f, nv.i32).run(1) == 7

    def g(a):
        left = iter([1, 2, 3])
        try:
            while True:
                a = a + next(left)
        except StopIteration:
            return a

    assert trace(g, nv.i32).run(1) == 7

    def h(a):
        for i in itertools.count():
            if i > 700:
                break
            a = a + 1
        return a

    assert trace(h, nv.i32).run(1) == 702


LONG = """
def f(a):
    n = 0
    while n < 10**9:  # <-
        a = a + 1
        n += 1
---
def f(a):
    for i in range(10**9):  # <-
        a = a + 1
---
def f(a):
    for i in itertools.count():  # <-
        for j in range(3):
            a = a + 1
---
def f(a):
    for i in range(10**9):
        for j in range(3):  # <-
            a = a + 1
"""


@pytest.mark.parametrize("source", LONG.split("---\n"))
def test_a_loop_that_traces_too_much(source, monkeypatch):
    monkeypatch.setenv("NVDSL_TRACE_LIMIT", "3000")
    start = time.process_time()
    with pytest.raises(TraceError, match="has traced 3,[0-9]+ ops") as caught:
        trace(define(source, itertools=itertools), nv.i32)
    assert time.process_time() - start < 2  # no op goes through all those before it
    assert "NVDSL_TRACE_LIMIT" in caught.value.rule and "nv.range" in caught.value.fix
    lines = [number for number, line in enumerate(source.splitlines(), 1) if "for" in line or "while" in line]
    assert caught.value.where.line in lines


def test_the_limit_is_a_number(monkeypatch):
    monkeypatch.setenv("NVDSL_TRACE_LIMIT", "many")
    with pytest.raises(ArgumentError, match="NVDSL_TRACE_LIMIT=many"):
        trace(define("def f(a):\n    for i in range(1000):\n        a = a + 1\n    return a\n"), nv.i32)


def test_a_long_loop_without_ops_is_pythons():
    def f(a):
        n = 0
        for i in range(10**5):
            n += i & 1
        return a + n

    assert trace(f, nv.i32).run(1) == 50_001


def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def test_an_expression_of_too_many_parts():
    body = define(f"def f(a):\n    return a{' + 1' * sys.getrecursionlimit()}\n")  # hypothesis may have raised it
    with pytest.raises(TraceError, match="an expression in `f` has too many parts") as caught:
        trace(body, nv.i32)
    assert caught.value.where == nv.errors.Where(body.__code__.co_filename, 1)


def test_recursion():
    def body(x):
        x[0] = factorial(x[1])

    error = refused(lambda: trace_kernel(body, array(nv.i32, 4)), factorial)
    assert error.message.startswith("`factorial` calls itself without end")
    assert error.where.line == factorial.__code__.co_firstlineno + 3
    assert len(str(error).splitlines()) == 3

    def mutual(x):
        if even(x[1]):
            x[0] = 1

    with pytest.raises(TraceError, match="`(even|odd).* calls itself without end"):
        trace_kernel(mutual, array(nv.i32, 4))

    def plain(x):
        x[0] = factorial(4)

    assert "24 : i32" in str(trace_kernel(plain, array(nv.i32, 4)))
