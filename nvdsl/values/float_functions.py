"""What `nv.math`'s functions have in common: of f32 values, they become functions of every float, and instructions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy as np

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.values import arith, dtypes, promotion
from nvdsl.values.dtypes import DType
from nvdsl.values.elementwise import Elementwise, Many, of_each
from nvdsl.values.traced import Value, as_value, wrap


class Function(Protocol):
    """A function of a float: of a traced value when the kernel runs, of a Python number at once."""

    @overload
    def __call__(self, x: Value) -> Value: ...
    @overload
    def __call__(self, x: Many) -> Many: ...
    @overload
    def __call__(self, x: float | np.integer | np.floating) -> float: ...


def of_floats(
    on_numbers: Callable[[float], float], double: bool = False
) -> Callable[[Callable[[Value], Value]], Function]:
    """Make ``fn``, written for f32 values (and f64 if ``double``), take every float type and numbers."""

    def decorate(fn: Callable[[Value], Value]) -> Function:
        @functools.wraps(fn)
        def take(x: Any) -> Any:
            if isinstance(x, Elementwise):
                return of_each(take, x)
            if not isinstance(x, ir.Value):
                try:
                    return on_numbers(x)
                except (ValueError, ArithmeticError):  # Python has no infinity or NaN for an answer
                    return _at_the_edge(fn.__name__.removesuffix("_approx"), x)
            x = as_value(x)
            t = _float_type(fn.__name__, x, double)
            if t in (dtypes.f32, dtypes.f64):
                return fn(x)
            result = fn(dtypes.f32(x))
            return result if result.dtype is dtypes.bool_ else t(result)

        return take

    return decorate


def _at_the_edge(name: str, x: Any) -> float:
    """What the function called ``name`` gives by IEEE 754: log(0) is -infinity, and sqrt(-1) is NaN."""
    of: dict[str, Any] = {"rsqrt": lambda x: 1 / np.sqrt(x), "rcp": np.reciprocal, "round": np.rint}
    with np.errstate(all="ignore"):
        return float((of.get(name) or getattr(np, name))(np.float64(x)))


def _float_type(name: str, x: Value, double: bool) -> DType:
    t = x.dtype
    if not t.arithmetic:
        raise promotion.no_arithmetic(name, t)
    if not t.is_float or (t is dtypes.f64 and not double):
        allowed = "f64, f32, f16 and bf16" if double else "f32, f16 and bf16"
        raise trace_error(f"{name} of {t.name}", rule=f"{name} takes {allowed}", fix="write nv.f32(x)")
    return t


def op(name: str, x: Value, ftz: bool = False) -> Value:
    """An nvvm op that knows f32 scalars only; ``ftz``: flush subnormal numbers to zero."""

    def one(scalar: Any) -> Any:
        return arith.emit(name, scalar.type, scalar, **({"ftz": ir.BoolAttr.get(True)} if ftz else {}))

    return wrap(arith.per_element(one, x) if x.shape else one(x), dtypes.f32)


def llvm(name: str, x: Value, approximate: bool = False) -> Value:
    return wrap(arith.intrinsic(name, x.type, x, approximate=approximate), x.dtype)


def nvvm(name: str, x: Value) -> Value:
    """An NVVM intrinsic on f32 scalars, for each element."""

    def one(scalar: Any) -> Any:
        return arith.intrinsic(name, scalar.type, scalar)

    return wrap(arith.per_element(one, x) if x.shape else one(x), dtypes.f32)
