"""Choosing among values without a branch: min, max, clamp, abs, select.

All take traced values and Python numbers; with Python numbers alone they stay in Python. The names hide
Python's own: use them as ``nv.min`` and so on.

Floats: ``min`` and ``max`` are IEEE 754-2008 minNum and maxNum (arith.minnumf, PTX min and max without .NaN):
beside a NaN they give the number; of -0.0 and +0.0, PTX takes -0.0 for the lesser.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from nvdsl.errors import TraceError, trace_error
from nvdsl.mlir import ir
from nvdsl.values import arith, dtypes, promotion
from nvdsl.values.elementwise import Elementwise, Many, of_each
from nvdsl.values.traced import Value, as_value, cast, wrap

if TYPE_CHECKING:
    from nvdsl.values.typing import Bool, Number

N = TypeVar("N", bound="Number")
A = TypeVar("A", bound="Number | ir.Value")
B = TypeVar("B", bound="Number | ir.Value")
Memory = TypeVar("Memory", bound=ir.Value)


@overload
def min(first: Value, /, *rest: Number) -> Value: ...
@overload
def min(first: Number, second: Value, /, *rest: Number) -> Value: ...
@overload
def min(first: Number, second: Number, third: Value, /, *rest: Number) -> Value: ...
@overload
def min(first: N, second: N, /, *rest: N) -> N: ...
@overload
def min(first: Many, second: Number | Elementwise, /, *rest: Number | Elementwise) -> Many: ...
@overload
def min(elements: Iterable[N], /) -> N: ...


def min(*args: Any) -> Any:
    """The least of two or more arguments, or of the elements of a single one. Types meet as in operators."""
    return _extreme("min", args)


@overload
def max(first: Value, /, *rest: Number) -> Value: ...
@overload
def max(first: Number, second: Value, /, *rest: Number) -> Value: ...
@overload
def max(first: Number, second: Number, third: Value, /, *rest: Number) -> Value: ...
@overload
def max(first: N, second: N, /, *rest: N) -> N: ...
@overload
def max(first: Many, second: Number | Elementwise, /, *rest: Number | Elementwise) -> Many: ...
@overload
def max(elements: Iterable[N], /) -> N: ...


def max(*args: Any) -> Any:
    """The greatest of two or more arguments, or of the elements of a single one. Types meet as in operators."""
    return _extreme("max", args)


def _extreme(op: str, args: tuple[Any, ...]) -> Any:
    first, *rest = args if len(args) > 1 else args[0]
    result = first
    for x in rest:
        if isinstance(result, Elementwise) or isinstance(x, Elementwise):
            result = of_each(lambda a, b: _extreme(op, (a, b)), result, x)
        elif isinstance(result, ir.Value) or isinstance(x, ir.Value):
            for one in (result, x):
                if isinstance(one, ir.Value):
                    as_value(one)
            met = promotion.binary(op, result, x)
            if met is NotImplemented:
                raise trace_error(f"{op} of {result!r} and {x!r}", rule=f"{op} takes numbers")
            result = wrap(*met)
        else:
            result = builtins.min(result, x) if op == "min" else builtins.max(result, x)
    return result


@overload
def maximum(a: Value, b: Number) -> Value: ...
@overload
def maximum(a: Number, b: Value) -> Value: ...
@overload
def maximum(a: N, b: N) -> N: ...
@overload
def maximum(a: Many, b: Number | Elementwise) -> Many: ...
@overload
def maximum(a: Number | Elementwise, b: Many) -> Many: ...


def maximum(a: Any, b: Any) -> Any:
    """The greater of the two, element by element of vectors: `max` of two arguments, by NumPy's name."""
    return max(a, b)


@overload
def minimum(a: Value, b: Number) -> Value: ...
@overload
def minimum(a: Number, b: Value) -> Value: ...
@overload
def minimum(a: N, b: N) -> N: ...
@overload
def minimum(a: Many, b: Number | Elementwise) -> Many: ...
@overload
def minimum(a: Number | Elementwise, b: Many) -> Many: ...


def minimum(a: Any, b: Any) -> Any:
    """The lesser of the two, element by element of vectors: `min` of two arguments, by NumPy's name."""
    return min(a, b)


@overload
def clamp(x: Value, low: Number, high: Number) -> Value: ...
@overload
def clamp(x: N, low: N, high: N) -> N: ...


def clamp(x: Number, low: Number, high: Number) -> Number:
    """Limit ``x`` to ``low`` .. ``high``. NaN gives ``low``. If ``low`` is above ``high``, the result is ``high``."""
    return min(max(x, low), high)


def abs(x: N) -> N:
    """The absolute value of ``x``. The least signed integer gives itself."""
    return builtins.abs(x)  # type: ignore[return-value]  # mypy joins the two to object


@overload
def select(condition: Value, a: Number, b: Number) -> Value: ...
@overload
def select(condition: Value, a: Memory, b: Memory) -> Memory: ...
@overload
def select(condition: bool, a: A, b: B) -> A | B: ...
@overload
def select(condition: Bool | Elementwise, a: Many, b: Number | Elementwise) -> Many: ...
@overload
def select(condition: Bool | Elementwise, a: Number | Elementwise, b: Many) -> Many: ...
@overload
def select(condition: Elementwise, a: Number | Elementwise, b: Number | Elementwise) -> Any: ...


def select(condition: Any, a: Any, b: Any) -> Any:
    """``a`` where ``condition`` is true, else ``b`` (arith.select); both are evaluated.

    ``condition``: a Python bool, which picks now, or a traced value, true if not 0; with vectors it may be a
    vector of their shape. Fragments and their vectors are chosen from element by element. ``a`` and ``b`` meet as in
    operators; values of one type that are no numbers (pointers, memrefs) can be selected, too. Raises ``TraceError``
    where they do not meet.
    """
    if (many := of_each(select, condition, a, b)) is not NotImplemented:
        return many
    if not isinstance(condition, ir.Value):
        if not isinstance(condition, (bool, np.bool_, int, np.integer)):
            raise trace_error(
                f"select by {condition!r}",
                rule="the condition is a bool: traced, or Python's, which picks while tracing",
                fix="call it" if callable(condition) else "compare it: `x != 0`, `x is not None`",
            )
        return a if condition else b
    condition = cast(condition, dtypes.bool_)
    if isinstance(a, Value) or isinstance(b, Value):
        t, a, b = _meet(a, b)
        return wrap(arith.select(condition, *_in_shape_of(condition, a, b)), t)
    if isinstance(a, ir.Value) and isinstance(b, ir.Value) and a.type == b.type:
        return arith.select(condition, a, b)
    if isinstance(a, ir.Value) or isinstance(b, ir.Value):
        raise _no_select(a, b)
    common = dtypes.common(dtypes.of(a), dtypes.of(b))
    return select(condition, as_value(a, common), as_value(b, common))


where = select
"""`select` by NumPy's name: ``nv.where(s.cols < n, s, -math.inf)``."""


def _meet(a: Any, b: Any) -> tuple[dtypes.DType, Any, Any]:
    if isinstance(a, Value) and isinstance(b, Value) and a.dtype is b.dtype and a.shape == b.shape:
        return a.dtype, a, b  # also for the types without arithmetic
    met = promotion.meet("select", a, b)
    if met is NotImplemented:
        raise _no_select(a, b)
    return met


def _in_shape_of(condition: Value, a: Any, b: Any) -> tuple[Any, Any]:
    """``a`` and ``b``, repeated if they are scalars and the condition is a vector."""
    if not condition.shape or isinstance(a.type, ir.VectorType):
        return a, b
    type = arith.like(condition.type, a.type)
    return arith.emit("vector.broadcast", type, a), arith.emit("vector.broadcast", type, b)


def _no_select(a: Any, b: Any) -> TraceError:
    return trace_error(f"select between {a!r} and {b!r}", rule="both are numbers, or values of one type")
