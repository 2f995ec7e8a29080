"""Random programs give the same numbers in Python, converted in Python, and traced."""

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvdsl.errors import TraceError
from nvdsl.trace.carry import is_value
from nvdsl.trace.control import Range
from nvdsl.trace.rewrite import convert
from nvdsl.values import dtypes as nv
from tests.exhaustive import exhaustive, sample
from tests.unit.trace.programs import Program
from tests.unit.trace.tracing import define, trace


class I32(int):
    """Python's int, but it wraps as the machine's."""


def _wrapped(x):
    return I32((int(x) + 2**31) % 2**32 - 2**31)


for _name in ("add", "sub", "mul", "and_", "or_", "xor"):
    _function = getattr(operator, _name)
    _special = _name.rstrip("_")
    setattr(I32, f"__{_special}__", lambda a, b, f=_function: _wrapped(f(int(a), int(b))))
    setattr(I32, f"__r{_special}__", lambda a, b, f=_function: _wrapped(f(int(b), int(a))))


class Part:
    def __init__(self, n):
        self.x = n(4)


def helper(x, y):
    if x > y:
        return x - y
    return (y & 7) + 1


def expected(function, arguments):
    """What Python gives, or the exception: a program may read a variable that it never assigned."""
    return tuple(map(int, function(*map(I32, arguments))))


def run(traced, arguments):
    """What the traced function gives: it returns its values, and keeps Python's numbers."""
    results = traced.run(*arguments) if any(map(is_value, traced.result)) else ()
    values = iter(results if isinstance(results, tuple) else (results,))
    return tuple(int(next(values)) if is_value(x) else int(_wrapped(x)) for x in traced.result)


ARGUMENTS = [(0, 1, 2), (3, -2, 5), (-5, 9, 3), (7, 7, 7), (1, 0, -4)]


def check(seed):
    """Whether the program could be traced."""
    source = Program(seed).source
    names = {"helper": helper, "Part": Part}
    plain = define(source, span=range, n=I32, **names)
    wanted = [expected(plain, arguments) for arguments in ARGUMENTS]
    converted = convert(plain)
    assert [expected(converted, arguments) for arguments in ARGUMENTS] == wanted, source
    try:
        traced = trace(define(source, span=Range, n=int, **names), nv.i32, nv.i32, nv.i32)
    except TraceError as error:
        assert any(reason in str(error) for reason in REFUSED), f"{error}\n{source}"
        return False
    assert [run(traced, arguments) for arguments in ARGUMENTS] == wanted, f"{source}\n{traced}"
    return True


REFUSED = (
    "`p` is used, but",  # a new object in one branch
    "`p` is a Python Part before the loop",
    "`p.x` is used, but",
    "`:=` in an operand",
    "the test of this `while` was a plain Python value at first",
    "changes `p.x` without carrying it",  # by another name, or `p` is assigned, too
    "changes `d` without carrying it",  # in a call
)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_a_random_program(seed):
    check(seed)


@exhaustive
@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_many_random_programs(seed):
    check(seed)


@pytest.mark.parametrize("count", sample([36, 60], 1))
def test_most_programs_are_traced(count):
    assert sum(map(check, range(count))) > count * 2 / 3
