"""Registers of a warp that hold parts of matrices: as they are, and as the rows that they hold.

PTX ISA, "Register Fragments" of wgmma.mma_async.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nvdsl.sim import matrix
from nvdsl.sim.values import LANES, spread
from nvdsl.sim.values import registers as registers_of

ROWS = 16
"""Rows of one warp's part."""


class Struct(list):
    """Registers as a list. ``stamp``: how many wgmma fences the warp had executed when one was last written."""

    __slots__ = ("stamp",)

    def __init__(self, values: Any, stamp: int = -1) -> None:
        super().__init__(values)
        self.stamp = stamp


@functools.cache
def d_fragment(n: int) -> tuple[Any, Any]:
    """(row, column) of each element of one warp's accumulator: [n/2 registers, 32 lanes]."""
    i, lane = np.arange(n // 2)[:, None], np.arange(LANES)[None]
    return lane // 4 + 8 * (i // 2 % 2), lane % 4 * 2 + i % 2 + 8 * (i // 4)


@functools.cache
def a_fragment(per: int) -> tuple[Any, Any]:
    """(row, column) of each element of one warp's A: [4 registers, 32 lanes, per elements a register]."""
    i, lane, j = np.arange(4)[:, None, None], np.arange(LANES)[None, :, None], np.arange(per)[None, None]
    return lane // 4 + 8 * (i % 2) + 0 * j, lane % 4 * per + j + 4 * per * (i // 2)


def pack_halves(values: Any) -> Any:
    pairs = values.astype(np.float16).reshape(-1, 2, LANES)
    return np.ascontiguousarray(np.moveaxis(pairs, 1, -1)).view(np.int32)[..., 0]


def _in_lanes(x: Any, dtype: Any = None) -> Any:
    """A register in each lane."""
    found = np.asarray(x, dtype)
    return found if found.shape == (LANES,) else spread(found, (LANES,))


class Given:
    """An accumulator that ordinary registers hold."""

    __slots__ = ("value",)

    def __init__(self, values: Any, kind: Any) -> None:
        given = [0 if x is None else x for x in values]
        if kind.d_type == "f16":
            words = np.array([_in_lanes(x, np.int32) for x in given])
            halves = np.ascontiguousarray(words).view(np.float16).reshape(len(given), LANES, 2)
            flat = np.moveaxis(halves, -1, 1).reshape(-1, LANES)
        else:
            dtype = np.int32 if kind.d_type == "i32" else np.float32
            flat = np.array([_in_lanes(x, dtype) for x in given])
        rows, columns = d_fragment(kind.n)
        self.value = np.zeros((ROWS, kind.n), flat.dtype)
        self.value[rows, columns] = flat


def fragment(values: Any, dtype: str) -> Any:
    """Four registers of A as this warp's [16, k]."""
    words = np.array([_in_lanes(x) for x in registers_of(values)])
    if words.dtype.itemsize != 4:  # a number that all lanes share is Python's
        words = words.astype(np.uint32)
    parts = np.ascontiguousarray(words).view(matrix.ELEMENTS[dtype]).reshape(4, LANES, -1)
    rows, columns = a_fragment(parts.shape[-1])
    out = np.zeros((ROWS, 8 * parts.shape[-1]), np.int32 if parts.dtype.kind in "iu" else np.float32)
    out[rows, columns] = matrix.widen(parts, dtype)
    return out
