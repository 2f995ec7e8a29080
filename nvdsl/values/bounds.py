"""Traced indices beside the extents that they must stay within.

A wrapper turns an index into an address, and an address says nothing of rows, columns or stages: the last row's
successor is the first row of the next tile. So what indexes also states its indices, as a ``gpu.printf`` with the
attribute `ATTRIBUTE`, whose format names what is indexed. The verifier, the simulator and debug mode on the device
check it; otherwise the lowering leaves it out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu
from nvdsl.values import arith, casts, dtypes

ATTRIBUTE = "nvdsl.bounds"
"""The extents: index ``i`` of the op is 0 to ``extents[i] - 1``. A dynamic one is an operand behind the indices."""

MULTIPLE = "nvdsl.multiple"
"""Of what the indices are multiples, where it is more than 1."""


def within(of: str, indices: Sequence[Any], extents: Sequence[Any], *, multiple: int = 1) -> None:
    """State that each of ``indices`` is 0 to its extent minus 1, and a multiple of ``multiple``.

    ``of``: what is indexed, for the report ("a tile of 16x64 f32"). Python ints were checked by the caller; where
    there are no others, nothing is emitted.
    """
    traced = [extent for extent in extents if isinstance(extent, ir.Value)]
    if all(isinstance(i, int) for i in indices) and not traced:
        return
    stated = gpu.printf(of.replace("%", "%%"), *map(_operand, [*indices, *traced]))
    known = [arith.DYNAMIC if isinstance(extent, ir.Value) else extent for extent in extents]
    stated.attributes[ATTRIBUTE] = ir.DenseI64ArrayAttr.get(known)
    if multiple > 1:
        stated.attributes[MULTIPLE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), multiple)


def _operand(value: Any) -> Any:
    """The value as it is, where the host and the device can compare it with an extent. Raises TraceError for what is no
    number."""
    if isinstance(value, (int, np.integer)):
        return arith.constant(ir.IndexType.get(), int(value))
    if isinstance(getattr(value, "type", None), ir.VectorType | None):
        raise trace_error(
            f"{value!r} as an index",
            rule="an index is one integer, traced or not",
            fix="v[0] is the first element of a vector; x[i] loads one of an array",
        )
    wide = isinstance(value.type, ir.IndexType) or value.dtype.bits >= 32
    return value if wide and not value.dtype.is_float else casts.convert(value, value.dtype, dtypes.i32)


@dataclass(frozen=True)
class Bounds:
    """What an op of `within` states. ``extents``: ints; a dynamic one is the op's operand of that number."""

    of: str
    extents: tuple[int | Operand, ...]
    multiple: int


@dataclass(frozen=True)
class Operand:
    """The number of an operand."""

    number: int


def stated(op: Any) -> Bounds | None:
    """What a ``gpu.printf`` states, None for one that prints."""
    if ATTRIBUTE not in op.attributes:
        return None
    multiple = ir.IntegerAttr(op.attributes[MULTIPLE]).value if MULTIPLE in op.attributes else 1
    of = ir.StringAttr(op.attributes["format"]).value.replace("%%", "%")
    extents = list(ir.DenseI64ArrayAttr(op.attributes[ATTRIBUTE]))
    traced = itertools.count(len(extents))
    return Bounds(of, tuple(Operand(next(traced)) if n == arith.DYNAMIC else n for n in extents), multiple)


RULE = "each index is 0 to its extent minus 1; negative indices don't wrap in a kernel"
FIX = "check the index: the loop's bounds, or the condition that guards the access"
