"""Before and after attention's backward kernel: what each row of Q adds to dS, and dQ in its own type."""

from __future__ import annotations

import math
from typing import Any

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
    def kernel() -> None:
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

    kernel()
    return sums


def store_registers(fragment: Any, tile: Any) -> None:
    """Write a warpgroup's fragment to a tile of 256 columns in the order of its registers: no bank conflicts."""
    (registers,) = fragment.registers()
    thread = nv.warpgroup_thread()
    for i in range(0, len(registers), 4):
        tile.store_vector(nv.vector(registers[i : i + 4]), (thread // 64 + i // 2, thread % 64 * 4))


def load_registers(shape: tuple[int, int], source: nv.Array, start: nv.Int) -> Any:
    """The fragment that `store_registers` wrote, from row ``start`` of an array on."""
    zero = nv.accumulator(*shape)
    thread, registers = nv.warpgroup_thread(), []
    for i in range(0, shape[0] * shape[1] // nv.WARP_GROUP_SIZE, 4):
        registers += list(source.vector((start + thread // 64 + i // 2, thread % 64 * 4), 4))
    return zero.with_registers([registers])


def convert_rows(total: nv.Array, dq: nv.Array, scale: nv.Number, tiles: GradientTiles, parts: Any) -> None:
    """``dq = scale * total``, where ``total`` has the sums in the order of the backward kernel's registers."""
    tile_m, size = parts.tile_m, parts.size
    dq_tma = nv.TMA(dq, tile=(1, tile_m, 1, size), swizzle=parts.swizzle)

    @nv.kernel(grid=tiles.count, block=128 * parts.count)
    def kernel() -> None:
        tile = nv.smem((tile_m, size), dq.dtype, swizzle=parts.swizzle)
        me = nv.warpgroup_id()
        sequence, head, query = tiles.queries_of(nv.block_id.x)
        for part in range(parts.slices):
            start = ((nv.block_id.x * parts.count + me) * parts.slices + part) * parts.rows
            found = load_registers(parts.shape, total, start) * scale
            if tiles.packed:
                row, column = parts.place(me, part)
                mine = tiles.clipped(dq, sequence.q_batch, sequence.q_first, sequence.queries, head)
                found.store(mine, (query + row, column), clip=True)
            else:
                found.store(parts.of(tile, me, part))
        if not tiles.packed:
            nv.fence_proxy_async()
            nv.sync_threads()
            if nv.thread_id.x == 0:
                dq_tma.store(tile, (sequence.q_batch, query, head, 0))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0, read=True)

    kernel()
