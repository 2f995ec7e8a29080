"""Arrays with any strides in the simulator, which itself is given packed copies of NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import memref


def strided(flat: nv.Array, shape: Sequence[int], strides: Sequence[int], start: int = 0) -> Any:
    """In a host function: ``flat``'s memory from element ``start`` on, as an array of this shape and these strides."""
    layout = ir.StridedLayoutAttr.get(start, list(strides))
    ty = ir.MemRefType.get(list(shape), flat.dtype.ir, layout=layout)
    op = memref.ReinterpretCastOp(ty, flat, [], [], [], [start], list(shape), list(strides))
    return op.result.remember_dtype(flat.dtype)
