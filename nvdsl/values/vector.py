"""Vectors built of their elements: a few numbers of one type in a thread's registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

from nvdsl.errors import trace_error
from nvdsl.mlir import ir
from nvdsl.values import arith, dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, as_value, cast, wrap
from nvdsl.values.typing import Number


@overload
def vector(elements: Iterable[Number], dtype: DType | None = None, /) -> Value: ...
@overload
def vector(dtype: DType, elements: Iterable[Number], /) -> Value: ...


def vector(first: Any, second: Any = None, /) -> Value:
    """A vector of numbers and traced values (``vector.from_elements``).

    ``nv.vector([a, b, c, d])`` has the type in which they meet, as in operators (Python's ints alone are i32, with a
    float f32). ``nv.vector([a, b], nv.f16)`` and ``nv.vector(nv.f16, [a, b])`` convert each element. A vector in
    registers may have any length; an access of memory takes 2, 4, 8 or 16 bytes.

    Raises TraceError for no elements, for what is no number, and for types that do not meet.
    """
    elements, dtype = (second, first) if isinstance(first, DType) else (first, second)
    is_list = isinstance(elements, Iterable) and not (isinstance(elements, Value) and not elements.shape)
    values = list(elements) if is_list else []
    if not values or any(_is_vector(x) for x in values):
        raise trace_error(
            f"nv.vector of {'vectors' if values else 'no elements' if is_list else repr(elements)}",
            rule="a vector is built of one number or more",
            fix="nv.vector([a, b, c, d]), or nv.vector([a, b, c, d], nv.f32)",
        )
    dtype = _meet(values) if dtype is None else dtypes.element(dtype)
    if dtype is dtypes.tf32:
        raise trace_error(
            "nv.vector of tf32",
            rule="a register holds a tf32 number as f32 (PTX ISA, Alternate floating-point data formats)",
            fix="nv.vector([nv.tf32(a), nv.tf32(b)], nv.f32), whose elements are rounded to tf32",
        )
    return wrap(arith.pack([cast(x, dtype) for x in values]), dtype)


def _is_vector(x: Any) -> bool:
    return isinstance(x, ir.Value) and as_value(x).shape != ()


def _meet(values: list[Any]) -> DType:
    """Traced values and NumPy's scalars decide; Python's numbers go beside them."""
    typed = [dtypes.of(x) for x in values if hasattr(x, "dtype")]
    if not typed:
        typed = [dtypes.of(x) for x in values if isinstance(x, (bool, int, float))]
    elif not typed[0].is_float and any(isinstance(x, float) for x in values):
        typed.append(dtypes.f32)
    if not typed:
        raise trace_error(f"nv.vector of {values[0]!r}", rule="a vector is built of numbers")
    common = typed[0]
    for t in typed[1:]:
        met = dtypes.common(common, t)
        if met is None:
            raise trace_error(
                f"nv.vector of {common.name} and {t.name}",
                rule="the elements of a vector have one type",
                fix="convert them, or name the type: nv.vector([a, b], nv.f32)",
            )
        common = met
    return common
