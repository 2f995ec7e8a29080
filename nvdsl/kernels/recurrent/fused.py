"""A step in one kernel: two products in one sum, and in the epilogue the gates and the new state.

A GEMM with a cooperative schedule (see `kernels.gemm.cooperative`), whose loop over K goes through the inputs and then
through the hidden state. The weights have the kinds of gates one after the other; a tile takes some units of each kind,
by one box of a tensor map with an axis for the kinds. So the gates of a unit are sums of the same thread, and the
weights are used as they lie.

A GRU scales a part of the second product, so that it has two sums.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.recurrent.cells import GRU, RNN, Cell
from nvdsl.kernels.recurrent.exchange import part_of
from nvdsl.kernels.recurrent.shapes import State

TILE_K, PIECE = 64, 64
"""Of both operands in a slot; rows and columns of what is stored at once."""


@dataclass(frozen=True)
class CellConfig:
    """``rows``: of the batch, of each of two consumers; ``units``: hidden units of a tile. ``cluster``: blocks side by
    side in a row of tiles, which load a part of the batch's tile for each other."""

    rows: int = 128
    units: int = 32
    stages: int = 4
    cluster: int = 2
    group: int = 8

    consumers = 2

    @property
    def tile_m(self) -> int:
        return self.rows * self.consumers


@nv.jit
def fused(
    x: State,
    h: State | None,
    w_ih: nv.Array,
    w_hh: nv.Array,
    b_ih: nv.Array | None,
    b_hh: nv.Array | None,
    c: State | None,
    h_new: State,
    c_new: State | None,
    *,
    cell: Cell,
    config: CellConfig,
    blocks: int,
) -> None:
    """``h_new``, ``c_new``: the state after a step. ``x``: [batch, inputs], states: [batch, hidden] (None: zeros),
    weights: [gates, hidden, inputs or hidden] (in a simple
    cell h may have any number of units), biases: [gates, hidden]. ``blocks``: of the grid at most, as many as run
    at the same time. Rows start at multiples of 16 bytes."""
    (batch, _), (gates, hidden, _) = x.shape, w_ih.shape
    rows, units, cluster, stages = config.rows, config.units, config.cluster, config.stages
    columns, piece = gates * units, min(PIECE, units)
    tiles = TileScheduler(batch, hidden, config.tile_m, units, 1, cluster, config.group)
    step = nv.min(tiles.count, blocks // cluster)

    def map_of(array: nv.Array, *tile: int) -> nv.TMA:
        return nv.TMA(array, tile=(*tile, TILE_K), swizzle=128, l2_promotion=None)

    operands = [(x, w_ih), (h, w_hh)] if h is not None else [(x, w_ih)]
    part = config.tile_m // cluster
    maps = [(map_of(state, part), map_of(weight, gates, units)) for state, weight in operands]
    ranges = [nv.cdiv(state.shape[1], TILE_K) for state, _ in operands]
    new = [nv.TMA(out, tile=(PIECE, piece), swizzle=piece * 2) for out in (h_new, c_new) if out is not None]

    @nv.kernel(grid=step * cluster, block=128 * (1 + config.consumers), cluster=cluster)
    def kernel() -> None:
        A = nv.smem((stages, config.tile_m, TILE_K), x.dtype, swizzle=128)
        B = nv.smem((stages, columns, TILE_K), x.dtype, swizzle=128)
        ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=4 * config.consumers * cluster, sync=False)
        pieces = nv.smem((2 * config.consumers, PIECE, piece), x.dtype, swizzle=piece * 2)
        nv.cluster_sync() if cluster > 1 else nv.sync_threads()
        first, rank = nv.block_id.x // cluster, nv.block_id.x % cluster
        mask = (1 << cluster) - 1 if cluster > 1 else None

        def produce() -> None:
            state = ring.producer_state()
            for tile in nv.range(first, tiles.count, step, unroll=False):
                _, row, col = tiles.start(tile, rank)
                for (of_state, of_weights), slices in zip(maps, ranges, strict=True):
                    for k in nv.range(slices, unroll=False):
                        full = ring.acquire(state)
                        at = (row + rank * part, k * TILE_K)
                        of_state.load(A[state.stage].rows(rank * part, part), full, at, multicast_mask=mask)
                        of_weights.load(B[state.stage], full, (0, col, k * TILE_K))
                        state = state.next()

        def release(slot: nv.PipelineState) -> None:
            lane = nv.lane_id()
            if cluster == 1:
                ring.release(slot, lane == 0)
            else:
                ring.release(slot, lane < cluster, rank=lane)

        def multiply(state: Any, top: Any, acc: Any, slices: int) -> Any:
            """The sums of some slices more, which are there then."""
            ring.wait(state)
            acc += A[state.stage].rows(top, rows) @ B[state.stage].T
            last, state = state, state.next()
            for _ in nv.range(1, slices, unroll=False):
                ring.wait(state)
                acc += A[state.stage].rows(top, rows) @ B[state.stage].T
                nv.wgmma_wait(1)
                release(last)
                last, state = state, state.next()
            nv.wgmma_wait(0)
            release(last)
            return acc, state

        def bias(array: nv.Array | None, kind: int, col: Any) -> Any:
            return 0.0 if array is None else nv.column_vector(array, (kind, col), units, clip=True)[None, :]

        def of_kind(acc: Any, kind: int) -> Any:
            return acc[:, kind * units : (kind + 1) * units]

        def store(new_state: list[Any], row: Any, col: Any, me: Any) -> None:
            """By pieces, through two buffers by turns."""
            leader, number = nv.warpgroup_thread() == 0, 0
            for value, out in zip(new_state, new, strict=True):
                for down in range(0, rows, PIECE):
                    for right in range(0, units, piece):
                        buffer = pieces[2 * me + number % 2]
                        if leader:
                            nv.bulk_wait_group(1, read=True)
                        nv.named_barrier_sync(1 + me, 128)
                        value[down : down + PIECE, right : right + piece].store(buffer)
                        nv.fence_proxy_async()
                        nv.named_barrier_sync(1 + me, 128)
                        if leader:
                            out.store(buffer, (row + down, col + right))
                            nv.bulk_commit_group()
                        number += 1

        def consume(me: Any) -> None:
            state, top = ring.consumer_state(), me * rows
            for tile in nv.range(first, tiles.count, step, unroll=False):
                _, row, col = tiles.start(tile, rank)
                row += top
                given = (None if isinstance(cell, RNN) else h, c)
                before = [None if s is None else part_of(s, row, col, rows=rows, units=units) for s in given]
                if isinstance(cell, GRU):
                    sums, state = multiply(state, top, nv.accumulator(rows, columns), ranges[0])
                    from_x = [of_kind(sums, g) + bias(b_ih, g, col) for g in range(gates)]
                    from_h = [bias(b_hh, g, col) + nv.accumulator(rows, units) for g in range(gates)]
                    if h is not None:
                        sums, state = multiply(state, top, nv.accumulator(rows, columns), ranges[1])
                        from_h = [of_kind(sums, g) + bias(b_hh, g, col) for g in range(gates)]
                else:
                    sums, state = multiply(state, top, nv.accumulator(rows, columns), sum(ranges))
                    from_x = [of_kind(sums, g) + bias(b_ih, g, col) for g in range(gates)]
                    from_h = [bias(b_hh, g, col) for g in range(gates)]
                old = [0.0 if value is None else value.to(nv.f32) for value in before[: cell.states]]
                store(cell.forward(from_x, from_h, old)[0], row, col, me)
            if nv.warpgroup_thread() == 0:
                nv.bulk_wait_group(0, read=True)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(40)
            if nv.warpgroup_thread() == 0:
                produce()
        else:
            nv.setmaxnreg_inc(232)
            consume(nv.warpgroup_id() - 1)
        if cluster > 1:
            nv.cluster_sync()

    kernel()
