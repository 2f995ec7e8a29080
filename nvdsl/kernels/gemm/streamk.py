"""GEMM with ping-pong and stream-K: all blocks are busy to the end, however the tiles divide.

The ping-pong kernel, but what full rounds leave is cut along K (see `streamk_scheduler`) and comes first. Who
multiplies such a part hands the sums to the block that owns the tile, through global memory; that one adds what the
others gave, in the order of K, and stores. Both are part of a consumer's epilogue: the other consumer multiplies
meanwhile, and all blocks end with a whole tile, at the same time.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.direct_epilogue import DirectEpilogue
from nvdsl.kernels.blocks.epilogue import TmaEpilogue, Visit
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.blocks.ordered_barrier import OrderedBarrier
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.streamk_fixup import FixupWorkspace
from nvdsl.kernels.gemm.streamk_scheduler import LEAST, StreamKScheduler


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    config: Config,
    blocks: int,
    a_major: str = "k",
    b_major: str = "mn",
    acc_dtype: nv.DType = nv.f32,
    visit: Visit | None = None,
    direct: bool = False,
    least: int = LEAST,
) -> None:
    """out[M, N] = A[M, K] @ B[K, N], as `nvdsl.kernels.gemm.pingpong.matmul`.

    ``blocks``: of the grid, at most; a block waits for some of lower numbers. ``least``: slices of K that are worth a
    block's while. Sums on their way are in memory of this call's own.
    """
    (*batches, M, N), K = out.shape, a.shape[-1 if a_major == "k" else -2]
    config.check(a.dtype, out.dtype, acc_dtype)
    A = TmaOperand(a, config.tile_m, config.tile_k, major=a_major)
    B = TmaOperand(b, config.tile_n, config.tile_k, major=b_major)
    D = (DirectEpilogue if direct else TmaEpilogue)(
        out, config.tile_n, buffers=config.store_buffers, visit=visit, operands=operands
    )
    tiles = TileScheduler(M, N, config.tile_m, config.tile_n, 1, 1, config.order, config.group, *batches)
    steps = nv.cdiv(K, config.tile_k)
    split = StreamKScheduler(tiles.count, steps, blocks, least).fitted()
    handover = FixupWorkspace(split.blocks, config.rows, config.tile_n, acc_dtype) if split.is_cut else None

    @nv.kernel(grid=split.blocks, block=config.threads)
    def kernel() -> None:
        loop = Mainloop(config, A, B, steps=steps)
        D.allocate(config.consumers)
        block = nv.block_id.x
        count = split.units(block)
        begin = split.unit(block, 0)
        loop.start(*tiles.start(begin.tile), begin.first, begin.last)
        nv.sync_threads()
        warpgroup = nv.warpgroup_id()
        turns = OrderedBarrier()

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(config.registers[0])
            if nv.warpgroup_thread() == 0:
                state = loop.ring.producer_state().advance(loop.started)
                for number in nv.range(count):
                    unit = split.unit(block, number)
                    skip = nv.select(number == 0, loop.started, 0)
                    backwards = unit.round & 1 if config.alternate else 0
                    state = loop.load(
                        state, *tiles.start(unit.tile), unit.first, unit.last, skip=skip, backwards=backwards
                    )
        else:  # consumers
            nv.setmaxnreg_inc(config.registers[1])
            consumer = warpgroup - 1
            loop.clear(consumer)
            state = loop.ring.consumer_state()
            if consumer == 1:  # the first unit is consumer 0's
                turns.pass_on(consumer)
                state = state.advance(begin.last - begin.first)
            for number in nv.range(consumer, count, 2):
                unit = split.unit(block, number)
                batch, row, col = tiles.start(unit.tile)
                turns.take(consumer)
                acc, last, state = loop.multiply(
                    state, 0, nv.accumulator(config.rows, config.tile_n, acc_dtype), unit.last - unit.first
                )
                if number + 1 < count:
                    turns.pass_on(consumer)
                loop.finish(last)
                state = state.advance(split.following(block, number))
                if handover is None:
                    D.store(acc, batch, row, col, consumer)
                elif unit.first > 0:
                    handover.give(acc, block, warpgroup)
                else:
                    # What the epilogue reads is not read ahead, as ping-pong does: no registers are left for it here.
                    giver, end = block, unit.last
                    while end < steps:  # the blocks before this one have the tile's other slices
                        giver = giver - 1
                        acc = handover.take(acc, giver, warpgroup)
                        end = split.unit(giver, 0).last
                    D.store(acc, batch, row, col, consumer)
            D.drain()

    kernel()
