"""Python numbers on their way into a traced program: which type they take, and whether they fit it."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np

from nvdsl.errors import trace_error
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType

BITWISE = frozenset("&|^")


def is_number(x: Any) -> TypeGuard[int | float]:
    """Is ``x`` a Python bool, int or float? (``np.float64`` is a Python float.)"""
    return isinstance(x, (int, float))


def plain(x: Any) -> Any:
    """NumPy's integers as Python's; anything else as it is. What must be known while tracing may be either."""
    return int(x) if isinstance(x, np.integer) else x


def type_beside(x: int | float, other: DType) -> DType:
    """The type that a literal takes in an operator beside a value of type ``other``: that type, but
    f32 for a float beside an integer, and i32 for an int beside a bool."""
    if isinstance(x, float):
        return other if other.is_float else dtypes.f32
    return dtypes.i32 if other is dtypes.bool_ and not isinstance(x, bool) else other


def fit(x: int | float, t: DType, op: str = "") -> int | float:
    """``x`` as a number of type ``t``: floats are cut toward zero for an integer type, and rounded to
    tf32 (ties away from zero) for tf32; the constant itself does the other roundings (to nearest even).

    Beside ``& | ^`` an int may also be written as the other sign's reading of the same bits.
    Raises ``TraceError`` for a number out of range, and for NaN as an integer.
    """
    if t is dtypes.bool_:
        return bool(x)
    if t.is_float:
        return _fit_float(x, t)
    if isinstance(x, float) and not math.isfinite(x):
        raise trace_error(f"{x} as {t.name}", rule="integers have no NaN and no infinity")
    whole = int(x)
    if op in BITWISE and -(1 << (t.bits - 1)) <= whole < 1 << t.bits:
        return whole
    if not t.min <= whole <= t.max:
        raise _out_of_range(x, t)
    return whole


def _fit_float(x: int | float, t: DType) -> float:
    if isinstance(x, float) and not math.isfinite(x):
        if t is dtypes.e4m3 and math.isinf(x):
            raise trace_error("e4m3 has no infinity", rule=f"e4m3 holds {t.min} .. {t.max} and NaN")
        return x
    if abs(x) > t.max and not _rounds_into(x, t):
        raise _out_of_range(x, t)
    return _round_tf32(float(x)) if t is dtypes.tf32 else float(x)


def _rounds_into(x: int | float, t: DType) -> bool:
    """Does ``x``, a bit beyond the largest number of ``t``, round to it?"""
    if t in (dtypes.f64, dtypes.tf32):
        return False
    with np.errstate(over="ignore"):
        return bool(abs(np.float64(x).astype(t.numpy)) <= t.max)


def _out_of_range(x: int | float, t: DType) -> Exception:
    return trace_error(
        f"{x} does not fit {t.name}",
        rule=f"{t.name} holds {t.min} .. {t.max}",
        fix="use a wider type, for example " + ("nv.f64(x)" if t.is_float else "nv.i64(x), nv.u32(x) or nv.f32(x)"),
    )


def _round_tf32(x: float) -> float:
    bits = int(np.float32(x).view(np.uint32))
    return float(np.uint32((bits + 0x1000) & 0xFFFFE000).view(np.float32))
