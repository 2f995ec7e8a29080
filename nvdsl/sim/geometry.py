"""Where the bytes of a box lie: strides in global memory, swizzled units in shared memory. See `tma`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from nvdsl.hopper import arch
from nvdsl.hopper.tensor_maps import SWIZZLE_BYTES, TensorMap
from nvdsl.values.elements import ELEMENTS

UNIT = arch.TMA_STORE_UNIT
"""Bytes that a swizzle moves together, and to which TMA clips a row that it stores."""

PATTERN = arch.SMEM_ALIGNMENT
"""Bytes after which every swizzle's pattern repeats: the address bits that permute are bits 7 to 9."""

NAN_FILL = 0x7FF7
"""What ``oob="nan"`` puts into every 16 bits of out-of-bounds elements."""

UNIT_DTYPE = np.dtype("V16")


def swizzled(address: np.ndarray, width: int, base: int = 0) -> np.ndarray:
    """Shared byte addresses after a swizzle ``width`` bytes wide (16 or less: none).

    Bits 4 and up are XORed with the bits from 7 on: one for 32 bytes, two for 64, three for 128.
    ``base``: how many 128-byte lines past address 0 the pattern starts (a matrix descriptor's base offset).
    """
    mask = width // UNIT - 1
    return address ^ (((address >> 7) - base) & mask) << 4 if mask > 0 else address


def ranges(starts: np.ndarray, size: int) -> list[tuple[int, int]]:
    """The union of ``[start, start + size)``, in order, as few ranges as possible."""
    if not starts.size:
        return []
    ordered = np.sort(starts, axis=None)
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - size - 1) > size)
    last = np.append(first[1:] - 1, len(ordered) - 1)
    return list(zip(ordered[first].tolist(), (ordered[last] + size).tolist(), strict=True))


# --- a tensor map, prepared ----------------------------------------------------------------------


class Geometry:
    """What a `TensorMap`'s fields come to; per dimension, outermost first, strides in bytes."""

    def __init__(self, tensor_map: TensorMap) -> None:
        if tensor_map.interleave != "none":
            raise ValueError(f"the simulator has no tensor maps with {tensor_map.interleave}")
        self.dtype = ELEMENTS[tensor_map.element]
        self.item = self.dtype.bytes
        self.raw = np.dtype(f"u{self.item}")
        self.box, self.dims = tensor_map.box, tensor_map.shape
        stored = -(-self.dims[-1] * self.item // UNIT) * UNIT // self.item
        self.stored_dims = (*self.dims[:-1], stored)
        self.strides = (*tensor_map.stride_bytes[::-1], self.item)
        self.row = self.box[-1] * self.item
        self.rows = math.prod(self.box[:-1])
        self.bytes = self.rows * self.row
        self.swizzle = SWIZZLE_BYTES.get(tensor_map.swizzle, 0)
        self.fill = np.full(4, NAN_FILL if tensor_map.oob == "nan" else 0, np.uint16).view(self.raw)[0]

    def clip(self, coords: Sequence[int], store: bool) -> tuple[tuple[int, ...], tuple[slice, ...], int]:
        """The part of a box inside of the tensor: its shape, where it lies in the box, and its first byte
        counted from the tensor's start."""
        if len(coords) != len(self.box):
            raise ValueError(f"{len(coords)} coordinates for a tensor map of rank {len(self.box)}")
        shape, place, first = [], [], 0
        dims = self.stored_dims if store else self.dims
        for at, dim, size, stride in zip(coords[::-1], dims, self.box, self.strides, strict=True):
            low = max(-at, 0)
            high = max(min(size, dim - at), low)
            shape.append(high - low)
            place.append(slice(low, high))
            first += (at + low) * stride
        return tuple(shape), tuple(place), first

    def row_offsets(self, shape: tuple[int, ...]) -> np.ndarray:
        """Byte offset in global memory of each row of a box of ``shape`` from its first, in order."""
        offsets = np.zeros(1, np.int64)
        for size, stride in zip(shape[:-1], self.strides[:-1], strict=True):
            offsets = np.add.outer(offsets, np.arange(size) * stride).reshape(-1)
        return offsets


@lru_cache(maxsize=256)
def geometry(tensor_map: TensorMap) -> Geometry:
    return Geometry(tensor_map)


@lru_cache(maxsize=256)
def runs(tensor_map: TensorMap, phase: int, run: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of each run of ``run`` bytes of a box that lies ``phase`` bytes past a multiple of `PATTERN`: in
    shared memory from the box's address, in global memory from its first element."""
    g = geometry(tensor_map)
    within = np.arange(0, g.row, run)
    linear = np.add.outer(phase + np.arange(g.rows) * (g.swizzle or g.row), within).reshape(-1)
    return swizzled(linear, g.swizzle) - phase, np.add.outer(g.row_offsets(g.box), within).reshape(-1)


@lru_cache(maxsize=256)
def units(tensor_map: TensorMap, phase: int) -> np.ndarray:
    """Where each 16-byte unit of a box lies, in units past the multiple of `PATTERN` before it."""
    return (runs(tensor_map, phase, UNIT)[0] + phase) // UNIT
