"""GEMM with ping-pong and stream-K: all blocks are busy to the end, however the tiles divide.

The ping-pong kernel, but what full rounds leave is cut along K (see `streamk_scheduler`) and comes first. Who
multiplies such a part hands the sums to the block that owns the tile, through global memory; that one adds what the
others gave, in the order of K, and stores. Both are part of a consumer's epilogue: the other consumer multiplies
meanwhile, and all blocks end with a whole tile, at the same time.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.mainloop import TURNS
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm
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
    epilogue_op: EpilogueOp | None = None,
    direct_store: bool = False,
    least: int = LEAST,
) -> None:
    """out[M, N] = A[M, K] @ B[K, N]; how they are stored: see `Gemm`.

    ``blocks``: of the grid, at most; a block waits for some of lower numbers. ``least``: slices of K that are worth a
    block's while. Sums on their way are in memory of this call's own.
    """
    gemm = Gemm(a, b, out, operands, config, acc_dtype, a_major, b_major, epilogue_op, direct_store, defined=True)
    tiles, epilogue = gemm.tiles, gemm.epilogue
    scheduler = StreamKScheduler(tiles.count, gemm.steps, blocks, least)
    workspace = None if scheduler.is_cut is False else FixupWorkspace(blocks, config.rows, config.tile_n, acc_dtype)

    @nv.kernel(grid=scheduler.blocks, block=config.threads, programmatic=True)
    def kernel() -> None:
        block = nv.block_id.x
        count, begin = scheduler.units(block), scheduler.unit(block, 0)
        mainloop = gemm.prologue(begin.tile, begin.first)
        warpgroup, turns = nv.warpgroup_id(), nv.Turns(2, barrier=TURNS)

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(config.registers[0])
            if gemm.loads():
                state = mainloop.ring.producer_state().advance(mainloop.started)
                for number in nv.range(count):
                    unit = scheduler.unit(block, number)
                    at = tiles.start(unit.tile)
                    skip = nv.select(number == 0, mainloop.started, 0)
                    backwards = unit.round & 1
                    state = mainloop.load(state, *at, unit.first, unit.last, skip=skip, backwards=backwards)
            elif gemm.spare():
                mainloop.clear()
        else:
            consumer = gemm.begin_consumer(mainloop)
            state = mainloop.ring.consumer_state()
            turns.begin(consumer)
            if consumer == 1:  # the first unit is consumer 0's
                state = state.advance(begin.last - begin.first)
            for number in nv.range(consumer, count, 2):
                unit = scheduler.unit(block, number)
                turns.wait(consumer)
                acc, last, state = mainloop.multiply(state, (0, 0), gemm.accumulator(), unit.last - unit.first)
                turns.pass_on(consumer, predicate=number + 1 < count)
                batch, row, col = gemm.place(unit.tile, mainloop)
                mainloop.finish(last)
                state = state.advance(scheduler.following(block, number))
                if workspace is None:
                    epilogue.store(acc, batch, row, col, consumer)
                elif unit.first > 0:
                    workspace.store(acc, block, warpgroup)
                else:
                    # What the epilogue reads is not read ahead, as ping-pong does: no registers are left for it here.
                    peer, end = block, unit.last
                    while end < gemm.steps:  # the blocks before this one have the tile's other slices
                        peer = peer - 1
                        acc = workspace.add(acc, peer, warpgroup)
                        end = scheduler.unit(peer, 0).last
                    epilogue.store(acc, batch, row, col, consumer)
            epilogue.drain()

    kernel()
