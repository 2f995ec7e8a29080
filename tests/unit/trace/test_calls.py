"""Calls in a traced function: helpers are rewritten on call, and builtins work on traced values."""

import contextlib
import dataclasses
import functools
import sys
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest

from nvdsl.errors import frames
from nvdsl.trace import calls
from nvdsl.trace.control import Range
from nvdsl.trace.rewrite import convert
from nvdsl.values import dtypes as nv
from tests.unit.trace.tracing import define, fails, trace


def clamp(x, low, high=10):
    if x < low:
        return low
    return min(x, high)


def twice(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@twice
def positive(x):
    return x if x > 0 else 0


class Counter:
    def __init__(self, start):
        if start > 100:
            start = start - 100
        self.value = start

    def step(self, by=1):
        if self.value > 5:
            return self.value - by
        return self.value + by

    def __call__(self, x):
        return x if x > self.value else self.value

    @classmethod
    def read(cls, x):
        return x if x < 3 else 3

    @staticmethod
    def sign(x):
        return 1 if x > 0 else -1


class Louder(Counter):
    def step(self, by=1):
        if by > 1:
            by = super().step(by)
        return by * 10


def test_functions_and_their_helpers():
    def f(a):
        return clamp(a, 2), clamp(a, low=0, high=4), positive(a), functools.partial(clamp, low=1)(a)

    traced = trace(f, nv.i32)
    assert traced.run(20) == (10, 4, 40, 10) and traced.run(-3) == (2, 0, 0, 1)


relu = lambda x: x if x > 0 else 0  # noqa: E731


def test_lambdas():
    def f(a):
        return relu(a), apply(lambda x: min(x, 3) if x < 9 else 9, a), apply(relu, a)

    def apply(function, x):
        return function(x)

    traced = trace(f, nv.i32)
    assert traced.run(5) == (5, 3, 5) and traced.run(-2) == (0, -2, 0) and traced.run(10) == (10, 9, 10)


def test_methods():
    def f(a):
        c = Counter(3)
        louder = Louder(3)
        return c.step(a), c(a), Counter.read(a), c.sign(a), louder.step(a), Counter.step(c, 1)

    traced = trace(f, nv.i32)
    assert traced.run(7) == (10, 7, 3, 1, 100) and traced.result[5] == 4
    assert traced.run(-7) == (-4, 3, -7, -1, -70)


def test_a_constructor_runs_as_it_is():
    def f(a):
        return Counter(a)  # the `if` in __init__ is Python's

    with pytest.raises(Exception, match="truth value of a traced value"):
        trace(f, nv.i32)


def test_methods_that_loop_over_attributes():
    class Ring:
        def __init__(self, n):
            self.n, self.phase = n, 0

        def run(self, times):
            for _ in Range(times):
                self.phase += 1
                if self.phase == self.n:
                    self.phase = 0
            return self.phase

    def f(times):
        return Ring(3).run(times)

    traced = trace(f, nv.i32)
    assert [traced.run(n) for n in range(5)] == [0, 1, 2, 0, 1]


def test_recursion_on_plain_values():
    def power(x, n):
        return x * power(x, n - 1) if n else 1

    def f(a):
        return power(a, 3)

    assert trace(f, nv.i32).run(2) == 8


def test_a_nested_function_is_converted_with_its_parent():
    def f(a):
        def inner(x):
            if x > 0:
                return 1
            return 2

        assert convert(inner) is inner
        return inner(a)

    assert trace(f, nv.i32).run(3) == 1


def test_context_managers_of_the_users():
    def f(a):
        class Scope:
            def __enter__(self):
                return a + 1

            def __exit__(self, *exception):
                pass

        with Scope() as x, contextlib.nullcontext(5) as y:
            if x > y:
                x = y + 0 * x
        return x

    traced = trace(f, nv.i32)
    assert (traced.run(9), traced.run(1)) == (5, 2)


def test_what_is_called_as_it_is():
    dataclass_init = dataclasses.make_dataclass("D", ["x"]).__init__
    same = [
        len, isinstance, int, abs, super, "text".upper, [].append, np.add, np.array, functools.lru_cache, Counter,
        SimpleNamespace, dataclass_init, contextlib.suppress, pytest.raises, nv.f32, nv.i32.__call__,
    ]  # fmt: skip
    for f in same:
        assert calls.resolve(f, convert) is f or calls.resolve(f, convert) == f
    assert calls.resolve(clamp, convert) is not clamp
    assert calls.resolve(Counter(1), convert) != Counter(1)


def test_the_standard_library_and_installed_packages_stay():
    installed = "/venv/lib/python3/site-packages"
    assert not frames.is_helper(contextlib.suppress.__init__)
    assert not frames.is_helper(convert)
    assert not frames.is_helper(in_file(f"{installed}/package_a/core.py"))
    assert frames.is_helper(in_file("/home/user/kernels.py"))


def in_file(filename):
    """A function whose code is in ``filename``."""
    code = clamp.__code__.replace(co_filename=filename)
    return FunctionType(code, {"__name__": "somewhere"}, "clamp")


def test_an_installed_package_that_decorates_is_user_code():
    path = "/venv/lib/python3/site-packages"
    helper, other = in_file(f"{path}/package_b/sub/helper.py"), in_file(f"{path}/package_c/core.py")
    assert not frames.is_helper(helper)
    frames.adopt(in_file(f"{path}/package_b/core.py"))
    assert frames.is_helper(helper)
    assert not frames.is_helper(other)


def test_min_and_max():
    def f(a, b):
        return min(a, b), max(a, b), min(a, 3), max([a, b, 4]), min(a, b, 0), max((a, 1) for _ in [1])[1], min(3, 2)

    traced = trace(f, nv.i32, nv.i32)
    assert traced.run(5, -2) == (-2, 5, 3, 5, -2) and traced.result[5:] == (1, 2)
    assert not traced.ops("scf.if")


def test_any_all_sum():
    def f(a, b):
        values = [a, b, a + b]
        return (
            any(v > 3 for v in values), all(v > 0 for v in values), any([False, a > 0]), all([True, a > 0, 1]),
            any([]), all([]), any([0, 2]), any([a > 0, True]), all([a > 0, False]), sum(values), sum([]), sum([a], b),
        )  # fmt: skip

    traced = trace(f, nv.i32, nv.i32)
    python = [traced.result[i] for i in (4, 5, 6, 10)]
    assert python == [False, True, True, 0]
    assert traced.run(2, 3) == (True, True, True, True, True, False, 10, 5)
    assert traced.run(-2, 3) == (False, False, False, False, True, False, 2, 1)
    # a + b; the sum of three; a and b: no 0 is added first
    assert len(traced.ops("arith.addi")) == 1 + 2 + 1


def test_round_and_abs():
    def f(x):
        return round(x), abs(x), round(2.5), round(2.567, 1), pow(x, 2)

    traced = trace(f, nv.f32)
    assert traced.result[0].dtype is nv.f32 and traced.result[2:4] == (2, 2.6)
    assert "roundeven" in str(traced)

    def g(x):
        return round(x, 2)  # <-

    fails(g, nv.f32, match="round\\(\\) of a traced value to digits")


def test_divmod():
    def f(a):
        return divmod(a, 4)

    assert trace(f, nv.i32).run(11) == (2, 3)


@pytest.mark.parametrize("name, fix", [("int", "nv.i32"), ("float", "nv.f32"), ("range", "nv.range"), ("len", "")])
def test_builtins_that_need_a_plain_number(name, fix):
    f = define(f"def f(a):\n    return {name}(a)  # <-\n")
    assert fix in fails(f, nv.i32, match="of a traced|a traced value used as a Python int").fix


def test_bool_of_a_traced_value():
    def f(a):
        return bool(a > 1)  # <-

    fails(f, nv.i32, match="the truth value of a traced value")


def test_options_of_min_and_max():
    def f(a):
        return min(a, 1, key=abs)  # <-

    fails(f, nv.i32, match="min\\(..., key=...\\) of traced values")


def test_super_and_the_frame_functions_are_not_wrapped():
    def f(a):
        names = sorted(locals())
        return eval("a + 1"), "a" in names, "clamp" in globals(), sys._getframe().f_code.co_name

    traced = trace(f, nv.i32)
    assert traced.run(1) == 2 and traced.result[1:] == (True, True, "f")


def test_a_helper_without_source():
    module = {}
    source = "def straight(x):\n    return x + 1\ndef branching(x):\n    return 1 if x > 0 else 2\n"
    exec(compile(source, "<typed in>", "exec"), module)
    straight, branching = module["straight"], module["branching"]

    def f(a):
        return straight(a)

    assert trace(f, nv.i32).run(1) == 2

    def g(a):
        return branching(a)

    with pytest.raises(Exception, match="the source of `branching` is not available") as caught:
        trace(g, nv.i32)
    assert (caught.value.where.file, caught.value.where.line) == ("<typed in>", 3)
    assert "file or a notebook cell" in caught.value.fix


def test_a_source_that_has_changed():
    f = define("def f(a):\n    return 1 if a > 0 else 2\n")
    import linecache

    name = f.__code__.co_filename
    size, modified, _, path = linecache.cache[name]
    linecache.cache[name] = (size, modified, ["def g(a):\n", "    return 3\n"], path)
    with pytest.raises(Exception, match="the source of `f` has changed since it was imported"):
        convert(f)
