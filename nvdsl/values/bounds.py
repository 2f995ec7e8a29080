"""Traced indices beside the extents that they must stay within.

A wrapper turns an index into an address, and an address says nothing of rows, columns or stages: the last row's
successor is the first row of the next tile. So what indexes also states its indices, as a ``gpu.printf`` with the
attribute `ATTRIBUTE`, whose format names what is indexed. The verifier, the simulator and debug mode on the device
check it; otherwise the lowering leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu
from nvdsl.values import arith, casts, dtypes

ATTRIBUTE = "nvdsl.bounds"
"""The extents: index ``i`` of the op is 0 to ``extents[i] - 1``."""

MULTIPLE = "nvdsl.multiple"
"""Of what the indices are multiples, where it is more than 1."""


def within(of: str, indices: Sequence[Any], extents: Sequence[int], *, multiple: int = 1) -> None:
    """State that each of ``indices`` is 0 to its extent minus 1, and a multiple of ``multiple``.

    ``of``: what is indexed, for the report ("a tile of 16x64 f32"). Python ints were checked by the caller; where
    there are no others, nothing is emitted.
    """
    if all(isinstance(i, int) for i in indices):
        return
    stated = gpu.printf(of.replace("%", "%%"), *map(_operand, indices))
    stated.attributes[ATTRIBUTE] = ir.DenseI64ArrayAttr.get(list(extents))
    if multiple > 1:
        stated.attributes[MULTIPLE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), multiple)


def _operand(value: Any) -> Any:
    """The value as it is, where the host and the device can compare it with an extent."""
    if isinstance(value, int):
        return arith.constant(ir.IndexType.get(), value)
    wide = isinstance(value.type, ir.IndexType) or value.dtype.bits >= 32
    return value if wide and not value.dtype.is_float else casts.convert(value, value.dtype, dtypes.i32)


@dataclass(frozen=True)
class Bounds:
    """What an op of `within` states."""

    of: str
    extents: tuple[int, ...]
    multiple: int


def stated(op: Any) -> Bounds | None:
    """What a ``gpu.printf`` states, None for one that prints."""
    if ATTRIBUTE not in op.attributes:
        return None
    multiple = ir.IntegerAttr(op.attributes[MULTIPLE]).value if MULTIPLE in op.attributes else 1
    of = ir.StringAttr(op.attributes["format"]).value.replace("%%", "%")
    return Bounds(of, tuple(ir.DenseI64ArrayAttr(op.attributes[ATTRIBUTE])), multiple)


RULE = "each index is 0 to its extent minus 1; negative indices don't wrap in a kernel"
FIX = "check the index: the loop's bounds, or the condition that guards the access"
