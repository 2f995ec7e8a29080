"""Before attention's backward kernel: what each row of Q adds to dS."""

from __future__ import annotations

import math

import nvdsl as nv
from nvdsl.kernels.attention.gradient_tiles import GradientTiles

LOG2_E = math.log2(math.e)
ACCESS = 8
"""16-bit elements of an access of 16 bytes."""
THREADS = 128


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
        for first in range(0, tile_m, THREADS // lanes):
            row = thread // lanes + first
            exists = (row < tile_m) & (query + row < sequence.queries)
            at = sequence.q_first + nv.select(exists, query + row, 0)
            here = nv.select(sequence.queries > 0, at, 0)
            o, do = (x.vector((sequence.q_batch, here, head, column), ACCESS).to(nv.f32) for x in (out, dout))
            mine = nv.select(lane * ACCESS < size, (o * do).sum(), 0.0)
            total = nv.warp.sum(mine, width=lanes)
            if (lane == 0) & (row < tile_m):
                logs = lse[sequence.q_batch, head, here]
                sees = exists & (logs != -math.inf)
                sums[nv.block_id.x, row] = nv.select(sees, logs * LOG2_E, math.inf)
                sums[nv.block_id.x, tile_m + row] = nv.select(exists, total, 0.0)

    sum_up()
    return sums
