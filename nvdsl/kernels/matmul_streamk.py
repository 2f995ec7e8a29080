"""GEMM with ping-pong and stream-K: all blocks are busy to the end, however the tiles divide.

The ping-pong kernel, but its unit of work is a part of a tile along K (see `nvdsl.kernels.split`). A part that does not
start at the tile's first slice is handed to the block that has it, through global memory; that one adds what the others
gave, in the order of K, and stores. Hand-over and addition are part of a consumer's epilogue, so the other consumer
multiplies meanwhile.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.config import Config
from nvdsl.kernels.direct import DirectStore
from nvdsl.kernels.epilogue import TileStore, Visit
from nvdsl.kernels.mainloop import Mainloop
from nvdsl.kernels.operands import Operand
from nvdsl.kernels.reduction import Handover
from nvdsl.kernels.schedule import Tiles
from nvdsl.kernels.split import Split
from nvdsl.kernels.turns import Turns


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    sums: nv.Array,
    flags: nv.Array,
    *operands: Any,
    config: Config,
    blocks: int,
    a_major: str = "k",
    b_major: str = "mn",
    acc_dtype: nv.DType = nv.f32,
    visit: Visit | None = None,
    direct: bool = False,
) -> None:
    """out[M, N] = A[M, K] @ B[K, N], as `nvdsl.kernels.matmul_pingpong.matmul`.

    ``sums``, ``flags``: the workspace, of `nvdsl.kernels.reduction.workspace_shapes`, its flags zero; they are zero
    again afterwards. One call at a time may use it. All ``blocks`` must run at the same time: they wait for each other.
    """
    (*batches, M, N), K = out.shape, a.shape[-1 if a_major == "k" else -2]
    config.check(a.dtype, out.dtype, acc_dtype)
    A = Operand(a, config.tile_m, config.tile_k, major=a_major)
    B = Operand(b, config.tile_n, config.tile_k, major=b_major)
    D = (DirectStore if direct else TileStore)(
        out, config.tile_n, buffers=config.store_buffers, visit=visit, operands=operands
    )
    handover = Handover(sums, flags)
    tiles = Tiles(M, N, config.tile_m, config.tile_n, 1, 1, config.order, config.group, *batches)
    steps = nv.cdiv(K, config.tile_k)
    split = Split(tiles.count, steps, blocks)

    @nv.kernel(grid=blocks, block=config.threads)
    def kernel() -> None:
        loop = Mainloop(config, A, B, steps=steps)
        D.allocate(config.consumers)
        nv.sync_threads()
        block = nv.block_id.x
        work = split.work(block)
        warpgroup = nv.warpgroup_id()
        turns = Turns()

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(config.registers[0])
            if nv.warpgroup_thread() == 0:
                state = loop.ring.producer_state()
                while work.left:
                    batch, row, col = tiles.start(work.tile)
                    state = loop.load(state, batch, row, col, work.first, work.last)
                    work = work.next()
        else:  # consumers
            nv.setmaxnreg_inc(config.registers[1])
            consumer = warpgroup - 1
            loop.clear(consumer)
            barrier = warpgroup
            state = loop.ring.consumer_state()
            if consumer == 1:  # the first unit is consumer 0's
                turns.pass_on(consumer)
                state = state.advance(work.last - work.first)
                work = work.next()
            while work.left:
                batch, row, col = tiles.start(work.tile)
                k0, k1 = work.first, work.last
                other = work.next()
                turns.take(consumer)
                acc, last, state = loop.multiply(
                    state, 0, nv.accumulator(config.rows, config.tile_n, acc_dtype), k1 - k0
                )
                if other.left:
                    turns.pass_on(consumer)
                loop.finish(last)
                state = state.advance(other.last - other.first)
                work = other.next()
                if k0 > 0:
                    handover.give(acc, block * 2 + consumer, barrier)
                else:
                    giver = block
                    while k1 < steps:  # the blocks that follow on the line have the tile's other slices
                        giver = giver + 1
                        acc = handover.take(acc, giver * 2, barrier)  # it is their first unit: consumer 0's
                        k1 = k1 + nv.min(split.begin(giver + 1) - split.begin(giver), steps - k1)
                    D.store(acc, batch, row, col, consumer)
            D.drain()

    kernel()
