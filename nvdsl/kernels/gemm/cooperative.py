"""GEMM with a cooperative schedule: a producer warpgroup, and consumers that share each tile of the result.

    producer     tile 0: load load load load | tile 1: load load ...       (one thread; as far ahead as the ring allows)
    consumer 0   tile 0: multiply, rows   0..63 of 128 | store | tile 1 ...
    consumer 1   tile 0: multiply, rows 64..127        | store | tile 1 ...

The blocks are persistent: as many as the GPU holds at once, each takes tile after tile. So the ring, its barriers and
the tensor maps are set up once, and while a tile is stored the next one's slices are loaded. Consumers of 128 rows
store half of them while the other half is multiplied: see `rolling`.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm
from nvdsl.kernels.gemm.rolling import LEAST, Rolling


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

    step = nv.min(tiles.count, blocks // config.cluster)

    @nv.kernel(grid=step * config.cluster, block=config.threads, cluster=config.cluster, programmatic=True)
    def kernel() -> None:
        first = nv.block_id.x // config.cluster
        mainloop = gemm.prologue(first)
        if gemm.rolls:
            mainloop.steps = nv.max(mainloop.steps, LEAST)

        if nv.warpgroup_id() == 0:
            gemm.produce(mainloop, first, step)
        else:
            consumer = gemm.begin_consumer(mainloop)
            if gemm.rolls:
                Rolling(gemm, mainloop, consumer).run(first, step)
            else:
                top, left = gemm.part(consumer)
                state = mainloop.ring.consumer_state()
                batch, row, col = mainloop.first
                for t in nv.range(first, tiles.count, step):
                    held = epilogue.prefetch(batch, row + top, col + left, config.rows)
                    acc, last, state = mainloop.multiply(state, (top, left), gemm.accumulator())
                    mainloop.finish(last)
                    epilogue.store(acc, batch, row + top, col + left, consumer, held)
                    batch, row, col = gemm.place(t + step, mainloop)
            epilogue.drain()

    kernel()
