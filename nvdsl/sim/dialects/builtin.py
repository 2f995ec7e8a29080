"""builtin: casts between types that hold the same thing."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.mlir import ir
from nvdsl.sim.decode import Decoder, Frame, op, unknown
from nvdsl.sim.values import element


@op("builtin.unrealized_conversion_cast")
def _cast(d: Decoder, op: Any) -> Any:
    """A memref becomes its descriptor: aligned pointers, offset, sizes, strides; a tensor map its address."""
    if len(op.operands) != 1 or len(op.results) != 1:
        raise unknown(op, "not one value to one")
    source, target = op.operands[0].type, str(op.results[0].type)
    if target.startswith("!llvm.struct") and _is_memref(source):
        return _descriptor(d, op)
    if isinstance(op.results[0].type, ir.VectorType) and str(source).startswith("!llvm.array"):
        return _stacked(d, op)
    d.alias(op.results[0], op.operands[0])  # a vector is the array of its rows
    return None


def _stacked(d: Decoder, op: Any) -> Any:
    """The rows of an array as a vector of two dimensions."""
    (a,) = d.operands(op)
    r, kind, row = d.result(op), element(op.results[0].type), tuple(op.results[0].type.shape[1:])

    def step(v: Frame) -> None:
        rows = [np.zeros((*row, 1), kind.dtype) if x is None else x for x in v[a]]
        v[r] = np.stack(np.broadcast_arrays(*rows))

    return step


def _is_memref(type: Any) -> bool:
    return isinstance(type, ir.MemRefType) or "mbarrier.group" in str(type)


def _descriptor(d: Decoder, op: Any) -> Any:
    (a,) = d.operands(op)
    r = d.result(op)
    type = op.operands[0].type
    strides = list(type.get_strides_and_offset()[0]) if isinstance(type, ir.MemRefType) else [1]
    sizes = list(type.shape) if isinstance(type, ir.MemRefType) else [1]
    size = element(type).bytes if isinstance(type, ir.MemRefType) else 1

    def step(v: Frame) -> None:
        value = v[a]
        aligned, first, *extents = value if value.__class__ is tuple else (value, value)
        shape, steps = extents or (sizes, strides)  # those of a dynamic array are its own
        v[r] = [aligned, aligned, (first - aligned) // size, list(shape), list(steps)]

    return step
