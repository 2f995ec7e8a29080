"""nvdsl/values/arith.py: what operators compute on integers and floats, folded by MLIR, against Python's numbers."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvdsl.errors import TraceError
from nvdsl.values import dtypes as nv
from nvdsl.values.traced import const
from tests.unit.traced import evaluate, ptx, tracing

INTEGERS = [nv.i8, nv.i16, nv.i32, nv.i64, nv.u8, nv.u16, nv.u32, nv.u64, nv.index]
FLOATS = [nv.f16, nv.bf16, nv.f32, nv.f64]


def wrapped(n: int, t: nv.DType) -> int:
    """``n`` in two's complement of ``t``'s width."""
    n &= (1 << t.bits) - 1
    return n - (1 << t.bits) if t.signed and n > t.max else n


def edges(t: nv.DType) -> list[int]:
    small = [-7, -1, 0, 1, 2, 3, 8, 100] if t.signed else [0, 1, 2, 3, 8, 100]
    return [t.min, t.min + 1, *small, t.max - 1, t.max]


ARITHMETIC = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def defined(op: str, a: int, b: int, t: nv.DType) -> bool:
    """Division by zero, and of the least number by -1, have no result."""
    return op not in ("//", "%") or (b != 0 and not (b == -1 and a == t.min))


@pytest.mark.parametrize("t", INTEGERS, ids=repr)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_integer_arithmetic(op: str, t: nv.DType) -> None:
    """Two values, a value and a literal, a literal and a value: all as Python, then wrapped."""
    fn = ARITHMETIC[op]
    pairs = [(a, b) for a in edges(t) for b in edges(t) if defined(op, a, b, t)]
    expected = [wrapped(fn(a, b), t) for a, b in pairs]
    for build in (
        lambda: [fn(t(a), t(b)) for a, b in pairs],
        lambda: [fn(t(a), b) for a, b in pairs],
        lambda: [fn(a, t(b)) for a, b in pairs],
    ):
        results = evaluate(build)
        assert [(a, b, int(r)) for (a, b), r in zip(pairs, results, strict=True)] == [
            (a, b, e) for (a, b), e in zip(pairs, expected, strict=True)
        ]
        assert {r.dtype for r in results} == {t.numpy}


@pytest.mark.parametrize("t", [*INTEGERS, nv.bool_], ids=repr)
@pytest.mark.parametrize("op", COMPARE)
def test_integer_comparisons(op: str, t: nv.DType) -> None:
    fn = COMPARE[op]
    numbers = [False, True] if t is nv.bool_ else edges(t)
    pairs = [(a, b) for a in numbers for b in numbers]
    expected = [fn(a, b) for a, b in pairs]
    assert evaluate(lambda: [fn(t(a), t(b)) for a, b in pairs]) == expected
    assert evaluate(lambda: [fn(t(a), b) for a, b in pairs]) == expected
    assert evaluate(lambda: [fn(a, t(b)) for a, b in pairs]) == expected


@given(a=st.integers(-(2**31), 2**31 - 1), b=st.integers(-(2**31), 2**31 - 1).filter(bool))
def test_floor_semantics(a: int, b: int) -> None:
    if b == -1 and a == -(2**31):
        return
    results = evaluate(lambda: [*divmod(nv.i32(a), nv.i32(b)), *divmod(nv.i32(a), b), *divmod(a, nv.i32(b))])
    assert results == [*divmod(a, b)] * 3


@pytest.mark.parametrize("t", [nv.i8, nv.u8, nv.i32, nv.index], ids=repr)
@pytest.mark.parametrize("n", range(7))
def test_powers_of_two_are_shifts_and_masks(t: nv.DType, n: int) -> None:
    numbers = edges(t)
    assert evaluate(lambda: [t(a) // 2**n for a in numbers]) == [a // 2**n for a in numbers]
    assert evaluate(lambda: [t(a) % 2**n for a in numbers]) == [a % 2**n for a in numbers]
    with tracing(t) as trace:
        (x,) = trace
        _ = x // 2**n, x % 2**n
        assert set(trace.ops) <= {"constant", "shrsi" if t.signed else "shrui", "andi"}


def test_a_power_of_two_that_does_not_fit() -> None:
    with tracing(nv.i8) as (x,):
        with pytest.raises(TraceError, match="128 does not fit i8"):
            x % 128
        with pytest.raises(TraceError, match="256 does not fit i8"):
            x // 256


SHIFTS = [(t, a, n) for t in INTEGERS for a in edges(t) for n in (0, 1, 5, t.bits - 1)]


@pytest.mark.parametrize("fn", [operator.lshift, operator.rshift])
def test_shifts(fn) -> None:
    """>> keeps the sign of signed types and fills with zeros on unsigned ones, which is Python's >> on both."""
    expected = [wrapped(fn(a, n), t) for t, a, n in SHIFTS]
    assert [int(r) for r in evaluate(lambda: [fn(t(a), n) for t, a, n in SHIFTS])] == expected
    assert [int(r) for r in evaluate(lambda: [fn(t(a), t(n)) for t, a, n in SHIFTS])] == expected
    assert [int(r) for r in evaluate(lambda: [fn(a, t(n)) for t, a, n in SHIFTS])] == expected


def test_a_shift_has_the_left_type() -> None:
    with tracing(nv.i32, nv.u64, nv.bool_, nv.index) as (x, wide, flag, i):
        assert (x << wide).dtype is nv.i32
        assert (wide >> x).dtype is nv.u64
        assert (flag << 3).dtype is nv.i32
        assert (i >> x).dtype is nv.index
        for count in (32, -1, 40):
            with pytest.raises(TraceError, match="by|fit"):
                x << count


@pytest.mark.parametrize("t", INTEGERS, ids=repr)
@pytest.mark.parametrize("fn", [operator.neg, operator.pos, operator.invert, abs])
def test_unary(fn, t: nv.DType) -> None:
    numbers = edges(t)
    results = evaluate(lambda: [fn(t(a)) for a in numbers])
    assert [int(r) for r in results] == [wrapped(fn(a), t) for a in numbers]
    assert {r.dtype for r in results} == {t.numpy}


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 10])
def test_power(n: int) -> None:
    numbers = [-3, -1, 0, 1, 2, 7]
    assert evaluate(lambda: [nv.i64(a) ** n for a in numbers]) == [a**n for a in numbers]
    assert evaluate(lambda: [nv.f64(a) ** -n for a in numbers if a]) == pytest.approx(
        [float(a) ** -n for a in numbers if a]
    )


def test_power_by_squaring() -> None:
    with tracing(nv.f32) as trace:
        assert trace[0] ** 8 is not None
        assert trace.ops == ["mulf"] * 3


FLOAT_NUMBERS = [-np.inf, -65504.0, -1.5, -0.0, 0.0, 0.1, 1.0, 3.0, 7e4, np.inf, np.nan]


def bits(numbers: list) -> list:
    """What tells -0.0 from 0.0, and takes all NaNs for one."""
    return ["nan" if np.isnan(x) else (x.dtype.name, float(x), bool(np.signbit(x))) for x in numbers]


@pytest.mark.parametrize("t", [nv.f32, nv.f64], ids=repr)
@pytest.mark.parametrize("fn", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_float_arithmetic_is_ieee(fn, t: nv.DType) -> None:
    pairs = [(t.numpy.type(a), t.numpy.type(b)) for a in FLOAT_NUMBERS for b in FLOAT_NUMBERS]
    with np.errstate(all="ignore"):
        expected = bits([fn(a, b) for a, b in pairs])
    assert bits(evaluate(lambda: [fn(const(a, t), const(b, t)) for a, b in pairs])) == expected
    assert bits(evaluate(lambda: [fn(const(a, t), float(b)) for a, b in pairs])) == expected
    assert bits(evaluate(lambda: [fn(float(a), const(b, t)) for a, b in pairs])) == expected


@pytest.mark.parametrize("t", FLOATS, ids=repr)
@pytest.mark.parametrize("op", COMPARE)
def test_float_comparisons(op: str, t: nv.DType) -> None:
    """With a NaN, != is true and all others are false."""
    numbers = [-np.inf, -1.5, -0.0, 0.0, 1.0, np.inf, np.nan]
    fn = COMPARE[op]
    pairs = [(a, b) for a in numbers for b in numbers]
    expected = [fn(a, b) for a, b in pairs]
    assert evaluate(lambda: [fn(t(a), t(b)) for a, b in pairs]) == expected
    assert evaluate(lambda: [fn(a, t(b)) for a, b in pairs]) == expected


def test_float_unary() -> None:
    assert bits(evaluate(lambda: [-nv.f32(x) for x in FLOAT_NUMBERS])) == bits([-np.float32(x) for x in FLOAT_NUMBERS])
    text = ptx(lambda x, h, d: [abs(x), abs(h), abs(d)], nv.f32, nv.bf16, nv.f64)
    assert all(f"abs.{t}" in text for t in ("f32", "bf16", "f64")) and ".extern" not in text


def test_index_divides_rounding_down() -> None:
    assert evaluate(lambda: [nv.index(-7) / 2, nv.index(7) / nv.i32(-2), -9 / nv.index(4)]) == [-4, -4, -3]
