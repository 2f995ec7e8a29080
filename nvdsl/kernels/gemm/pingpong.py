"""GEMM with a ping-pong schedule: a producer warpgroup, and two consumers with a tile of the result each.

    producer     load tile 0 | load tile 1 | load tile 2 | load tile 3 ...
    consumer 0   multiply 0  | store 0     | multiply 2  | store 2 ...
    consumer 1               | multiply 1  | store 1     | multiply 3 ...

While one consumer stores, the other has the tensor cores: the epilogue costs no time. Each reads every other tile's
slots of the one ring. `nv.Turns` says whose turn it is: without it, both would multiply at half speed and then
store at the same time.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.mainloop import TURNS
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm


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
) -> None:
    """out[M, N] = A[M, K] @ B[K, N]; how they are stored: see `Gemm`. ``blocks``: of the grid at most, as many as run
    at the same time."""
    gemm = Gemm(a, b, out, operands, config, acc_dtype, a_major, b_major, epilogue_op, direct_store)
    tiles, epilogue = gemm.tiles, gemm.epilogue

    roomy = epilogue.bytes(config.rows) <= gemm.a.bytes(config.stages * config.tile_m)
    step = nv.min(tiles.count, blocks // config.cluster)

    @nv.kernel(grid=step * config.cluster, block=config.threads, cluster=config.cluster, programmatic=True)
    def kernel() -> None:
        first = nv.block_id.x // config.cluster
        mainloop = gemm.prologue(first)
        turns = nv.Turns(2, barrier=TURNS)

        if nv.warpgroup_id() == 0:
            gemm.produce(mainloop, first, step)
        else:
            consumer = gemm.begin_consumer(mainloop)
            state = mainloop.ring.consumer_state()
            turns.begin(consumer)
            batch, row, col = mainloop.first
            if consumer == 1:
                state = state.advance(mainloop.steps)  # the first tile's slots are consumer 0's
                batch, row, col = gemm.place(first + step, mainloop)
            for t in nv.range(first + consumer * step, tiles.count, 2 * step):
                held = epilogue.prefetch(batch, row, col, config.rows)
                turns.wait(consumer)
                acc, last, state = mainloop.multiply(state, (0, 0), gemm.accumulator())
                # The other's first products queue up behind the last ones here.
                turns.pass_on(consumer, predicate=t + step < tiles.count)
                mainloop.finish(last)
                state = state.advance(mainloop.steps)
                # Behind the last tile nobody loads any more, and of the other's tile before it no slot is left.
                room = (t + step >= tiles.count) & (mainloop.steps >= config.stages), mainloop.a.stack.first.offset
                epilogue.store(acc, batch, row, col, consumer, held, room=room if roomy else None)
                batch, row, col = gemm.place(t + 2 * step, mainloop)
            epilogue.drain()

    kernel()
