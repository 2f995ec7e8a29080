"""TMA's ops in a module, whatever their form: which box of which tensor each moves, and where to.

nvgpu's ops name the tensor map itself, nvvm's its address: then the map is behind a cast.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from nvdsl.mlir import ir

_TENSOR = "nvvm.cp.async.bulk.tensor"
_COPIES: dict[str, tuple[str, int, int, int | None]] = {
    # op -> what it is called; its segments of operands: the tensor map, the coordinates, the predicate
    "nvgpu.tma.async.load": ("TMA load", 2, 3, 6),
    "nvgpu.tma.async.store": ("TMA store", 1, 2, 3),
    f"{_TENSOR}.shared.cluster.global": ("TMA load", 1, 2, 7),
    f"{_TENSOR}.global.shared.cta": ("TMA store", 0, 2, 4),
    f"{_TENSOR}.reduce": ("TMA reduction", 0, 2, None),
    f"{_TENSOR}.prefetch": ("TMA prefetch", 0, 1, None),
}
COPIES = tuple(_COPIES)


@dataclass(frozen=True)
class TensorCopy:
    """``what``: e.g. "TMA load". ``tensor_map``: the value. ``box``: its memref type. ``coordinates``: of the box's
    first element, in elements, the innermost first. ``predicate``: an i1 that must hold, or None."""

    what: str
    tensor_map: Any
    box: Any
    coordinates: list[Any]
    predicate: Any

    @property
    def out(self) -> bool:
        """Whether it writes to global memory."""
        return self.what in ("TMA store", "TMA reduction")


def of(op: Any) -> TensorCopy | None:
    """What one of `COPIES` copies; None for im2col, and where the tensor map isn't known."""
    what, tensor_map, coordinates, predicate = _COPIES[op.name]
    fields = segments(op)
    (map_,) = fields[tensor_map]
    map_ = map_ if box_type(map_.type) else descriptor(map_)
    box = map_ and box_type(map_.type)
    if box is None or "mode" in op.attributes and "im2col" in str(op.attributes["mode"]):
        return None
    condition = fields[predicate] if predicate is not None else []
    return TensorCopy(what, map_, box, fields[coordinates], condition[0] if condition else None)


def segments(op: Any) -> list[list[Any]]:
    """The op's operands by segment."""
    operands, found = iter(list(op.operands)), []
    for size in op.attributes["operandSegmentSizes"]:
        found.append([next(operands) for _ in range(int(size))])
    return found


def descriptor(pointer: Any) -> Any | None:
    """The tensor map that an nvvm op names by its address."""
    op = None if isinstance(pointer.owner, ir.Block) else pointer.owner.operation
    return op.operands[0] if op is not None and op.name == "builtin.unrealized_conversion_cast" else None


def descriptor_type(pointer: Any) -> Any | None:
    """The type of the tensor map that an nvvm op names by its address."""
    found = descriptor(pointer)
    return found if found is None else found.type


def box_type(descriptor_type: Any) -> Any | None:
    """The memref type of one box of a tensor map, from the map's type; None for another type."""
    match = re.search(r"tensor = (memref<[^>]*>)", str(descriptor_type))
    return ir.MemRefType(ir.Type.parse(match.group(1), descriptor_type.context)) if match else None
