"""Results of rows that no TMA store takes: those of packed sequences, and parts that are added up later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv

Placed = Callable[[Any], tuple[tuple[Any, ...], Any]]
"""Of a row of a tile: the indices of its result, all but the last, and whether it is one."""

UNIT = 8
"""Elements of 16 bits that a thread stores at once."""


def store_rows(tile: nv.Tile, out: nv.Array, placed: Placed) -> None:
    """Store the rows of a tile in shared memory, 64 of 16-bit elements: each warp those that it wrote to the tile."""
    nv.sync_warp()
    units = out.shape[-1] // UNIT  # of a row
    first = nv.warpgroup_thread() // 32 * 16
    for step in range(nv.cdiv(16 * units, 32)):
        unit = nv.lane_id() + 32 * step
        row, col = unit // units, unit % units * UNIT
        at, inside = placed(first + row)
        vector = tile.vector((first + nv.min(row, 15), col), UNIT)
        out.store((*at, col), vector, predicate=inside & (row < 16))
    nv.sync_warp()


def store_sums(sums: nv.Accumulator, out: nv.Array, placed: Placed) -> None:
    """Store 64 rows from registers, in f32."""
    elements = list(sums.elements())
    for (row, col, x), (_, _, y) in zip(elements[::2], elements[1::2], strict=True):
        at, inside = placed(row)
        out.store((*at, col), nv.vector([x, y]), predicate=inside & (col < out.shape[-1]))
