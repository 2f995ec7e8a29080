"""Before attention's backward kernel: what each row of Q adds to dS."""

from __future__ import annotations

import math
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_tiles import GradientTiles

LOG2_E = math.log2(math.e)
ACCESS = 8
"""16-bit elements of an access of 16 bytes."""
THREADS = 128
TOGETHER = 4
"""Rows that a thread loads before it adds up the first one."""


def sum_rows(dout: nv.Array, out: nv.Array, lse: nv.Array, tiles: GradientTiles, tile_m: int) -> nv.Array:
    """A row for each tile of ``tile_m`` queries of each head: LSE to base 2, and behind them the sums of O dO.

    LSE is infinity for queries that see nothing, and for those that fill up the last tile: all their weights become 0.
    """
    size = out.shape[3]
    sums = nv.empty((tiles.count, 2 * tile_m), nv.f32)
    lanes = 1 << (-(-size // ACCESS) - 1).bit_length()

    @nv.kernel(grid=tiles.count, block=THREADS)
    def sum_up() -> None:
        thread = nv.thread_id.x
        sequence, head, query = tiles.queries_of(nv.block_id.x)
        lane, column = thread % lanes, nv.min(thread % lanes * ACCESS, size - ACCESS)

        def place(row: Any) -> tuple[Any, Any]:
            """Whether the tile has a row, and where it lies, or another one."""
            exists = (row < tile_m) & (query + row < sequence.queries)
            at = sequence.q_first + nv.select(exists, query + row, 0)
            return exists, nv.select(sequence.queries > 0, at, 0)

        def loaded(row: Any) -> Any:
            _, here = place(row)
            o, do = (x.vector((sequence.q_batch, here, head, column), ACCESS) for x in (out, dout))
            return o, do, lse[sequence.q_batch, head, here]

        rows = [thread // lanes + first for first in range(0, tile_m, THREADS // lanes)]
        for some in [rows[i : i + TOGETHER] for i in range(0, len(rows), TOGETHER)]:
            found = [loaded(row) for row in some]  # all on their way before the first one is waited for
            for row, (o, do, logs) in zip(some, found, strict=True):
                exists, _ = place(row)
                mine = nv.select(lane * ACCESS < size, (o.to(nv.f32) * do.to(nv.f32)).sum(), 0.0)
                total = nv.warp.sum(mine, width=lanes)
                if (lane == 0) & (row < tile_m):
                    sees = exists & (logs != -math.inf)
                    sums[nv.block_id.x, row] = nv.select(sees, logs * LOG2_E, math.inf)
                    sums[nv.block_id.x, tile_m + row] = nv.select(exists, total, 0.0)

    sum_up()
    return sums
