"""GEMM of groups of rows, each with a matrix of its own: mixture of experts.

    out[rows of g] = a[rows of g] @ b[g]          group g has the rows offsets[g - 1] to offsets[g] - 1

One persistent kernel for all groups. Only the device knows where they end, so each warp finds its tiles by itself
(`GroupTiles`). The last tile of a group computes rows of the next one too, and leaves them out where it stores. Both
schedules are those of `cooperative` and `pingpong`, with numbers that go on until there is no such tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.direct_epilogue import cut
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.group_tiles import AllTiles, GroupTiles, group_end
from nvdsl.kernels.blocks.mainloop import TURNS, Mainloop
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm

SCHEDULES = ("cooperative", "pingpong")


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    offsets: nv.Array,
    out: nv.Array,
    *operands: Any,
    config: Config,
    blocks: int,
    b_major: str = "mn",
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: EpilogueOp | None = None,
    direct_store: bool = False,
) -> None:
    """``a`` is (M, K), ``b`` (groups, K, N), or stored (groups, N, K) where ``b_major`` is "k"; ``out`` (M, N).

    ``offsets``: integers, where each group ends; they don't decrease. Rows of ``out`` behind the last group are zeroed.
    ``blocks``: of the grid at most, as many as run at the same time. An epilogue is told the group as its batch.
    """
    direct_store = direct_store or cut(out)
    gemm = GroupedGemm(a, b, out, operands, config, acc_dtype, "k", b_major, epilogue_op, direct_store)
    halves = getattr(epilogue_op, "halves", 1)
    tile, cluster = (config.tile_m, config.tile_n // halves), (config.cluster_m, config.cluster_n)
    tiles = GroupTiles(offsets, out.shape, tile, cluster, config.group)
    epilogue = gemm.epilogue
    pingpong = config.schedule == "pingpong"
    step = nv.min(tiles.most, blocks // config.cluster)

    @nv.kernel(grid=step * config.cluster, block=config.threads, cluster=config.cluster, programmatic=True)
    def kernel() -> None:
        first = nv.block_id.x // config.cluster
        mainloop = gemm.prologue()
        rank = mainloop.rank
        turns = nv.Turns(2, barrier=TURNS)

        if nv.warpgroup_id() == 0:
            gemm.load_groups(mainloop, tiles, first, step)
        else:
            consumer = gemm.begin_consumer(mainloop)
            top, left = (0, 0) if pingpong else gemm.part(consumer)
            state = mainloop.ring.consumer_state()
            tile = tiles.first(first, rank)
            if pingpong and consumer == 1:
                turns.pass_on(consumer, predicate=tile.valid)
                tile = tile.next(step)
                state = state.advance(mainloop.steps)  # the first tile's slots are consumer 0's
            while tile.valid:
                following = tile.next(step)
                row, col = tile.row + top, tile.col + left
                if pingpong or row < tile.end:
                    held = epilogue.prefetch(tile.group, row, col, config.rows)
                    if pingpong:
                        turns.wait(consumer)
                    acc, last, state = mainloop.multiply(state, (top, left), gemm.accumulator())
                    if pingpong:  # the following tile is the other consumer's
                        turns.pass_on(consumer, predicate=following.valid)
                        state = state.advance(mainloop.steps)
                    mainloop.finish(last)
                    epilogue.store(acc, tile.group, row, col, consumer, held, tile.end)
                else:  # the other consumers' rows are the group's last
                    state = mainloop.pass_over(state)
                tile = following.next(step) if pingpong else following
            epilogue.drain()
            zero_rows(out, tiles.last, consumer * 128 + nv.warpgroup_thread(), 128 * config.consumers, direct_store)

    kernel()


@nv.jit
def empty_sums(
    offsets: nv.Array,
    out: nv.Array,
    *operands: Any,
    acc_dtype: nv.DType = nv.f32,
    epilogue_op: Callable[..., Any] | None = None,
) -> None:
    """What `matmul` stores where K is 0, or where there are no groups. A thread for each element."""
    rows, cols = out.shape
    groups = offsets.shape[0]
    tiles = TileScheduler(rows, cols, 8, 32, group=1)

    @nv.kernel(grid=tiles.count, block=(32, 8))
    def kernel() -> None:
        _, row, col = tiles.start(nv.block_id.x)
        row, col = row + nv.thread_id.y, col + nv.thread_id.x
        if row < rows and col < cols:
            group = nv.i32(0)
            for i in nv.range(groups):
                group += nv.select(group_end(offsets, i, rows) <= row, 1, 0)
            value = out.dtype(0)
            if group < groups:
                zero = acc_dtype(0)
                value = out.dtype(zero if epilogue_op is None else epilogue_op(zero, group, row, col, *operands))
            out[row, col] = value

    kernel()


class GroupedGemm(Gemm):
    """`Gemm` whose tiles only the device knows."""

    def load_groups(self, mainloop: Mainloop, tiles: GroupTiles | AllTiles, first: Any, step: Any) -> None:
        """Load tiles ``first``, ``first + step``, ... By the producer warpgroup, of which one warp finds the tiles and
        one thread loads."""
        nv.setmaxnreg_dec(self.config.registers[0])
        if nv.warpgroup_thread() < 32:
            state = mainloop.ring.producer_state()
            tile = tiles.first(first, mainloop.rank)
            while tile.valid:
                if nv.lane_id() == 0:
                    mainloop.load(state, tile.group, tile.row, tile.col)
                state = state.advance(mainloop.steps)
                tile = tile.next(step)
            if self.config.cluster > 1 and nv.lane_id() == 0:
                mainloop.drain(state)
        else:
            mainloop.clear()


def zero_rows(out: nv.Array, first: Any, thread: Any, threads: int, direct_store: bool) -> None:
    """Zero the rows of ``out`` from ``first`` on: row by row by the blocks of the grid, by so many threads of each."""
    rows, cols = out.shape
    each = 1 if direct_store else 16 // out.dtype.bytes
    zeros = nv.vector([out.dtype(0)] * each)
    for row in nv.range(first + nv.block_id.x, rows, nv.grid_dim.x, unroll=False):
        for col in nv.range(thread * each, cols, threads * each, unroll=False):
            if each == 1:
                out[row, col] = out.dtype(0)
            else:
                out.store_vector(zeros, (row, col))
