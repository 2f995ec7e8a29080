"""TMA's ops in a module, whatever their form: which box of which tensor each moves, and where to.

nvgpu's ops name the tensor map itself, nvvm's its address: then the map is behind a cast.
"""

from __future__ import annotations

import re
from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.ir.operands import named, optional, word
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir

PROMOTED_BY_ROWS = "nvdsl.promoted_by_rows"
"""The attribute of an nvgpu.tma.create.descriptor whose misses fetch 256 bytes into L2 where rows start at multiples of
so many, else what its type says."""

_TENSOR = "nvvm.cp.async.bulk.tensor"
_COPIES = {  # op -> what it is called
    "nvgpu.tma.async.load": "TMA load",
    "nvgpu.tma.async.store": "TMA store",
    f"{_TENSOR}.shared.cluster.global": "TMA load",
    f"{_TENSOR}.global.shared.cta": "TMA store",
    f"{_TENSOR}.reduce": "TMA reduction",
    f"{_TENSOR}.prefetch": "TMA prefetch",
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
    map_ = tensor_map(op)
    box = map_ and box_type(map_.type)
    if map_ is None or box is None or "im2col" in word(op, "mode"):
        return None
    return TensorCopy(_COPIES[op.name], map_, box, list(named(op).coordinates), optional(op, "predicate"))


def tensor_map(op: Any) -> Any | None:
    """The tensor map that one of `COPIES` names, itself or by its address; None where it isn't known."""
    return named(op).tensorMapDescriptor if op.name.startswith("nvgpu.") else descriptor(named(op).tmaDescriptor)


def descriptor(pointer: Any) -> Any | None:
    """The tensor map that an nvvm op names by its address."""
    op = defining(pointer)
    return op.operands[0] if op is not None and op.name == "builtin.unrealized_conversion_cast" else None


def box_type(descriptor_type: Any) -> Any | None:
    """The memref type of one box of a tensor map, from the map's type; None for another type."""
    match = re.search(r"tensor = (memref<[^>]*>)", str(descriptor_type))
    return ir.MemRefType(ir.Type.parse(match.group(1), descriptor_type.context)) if match else None
