"""GEMM with a cooperative schedule: a producer warpgroup, and consumers that share each tile of the result.

    producer     tile 0: load load load load | tile 1: load load ...       (one thread; as far ahead as the ring allows)
    consumer 0   tile 0: multiply, rows   0..63 of 128 | store | tile 1 ...
    consumer 1   tile 0: multiply, rows 64..127        | store | tile 1 ...

The blocks are persistent: as many as the GPU holds at once, each takes tile after tile. So the ring, its barriers and
the tensor maps are set up once, and while a tile is stored the next one's slices are loaded.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.direct_epilogue import DirectEpilogue
from nvdsl.kernels.blocks.epilogue import TmaEpilogue, Visit
from nvdsl.kernels.blocks.mainloop import Mainloop
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.blocks.tma_operand import TmaOperand
from nvdsl.kernels.gemm.config import Config


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
) -> None:
    """out[M, N] = A[M, K] @ B[K, N].

    ``a`` is stored (M, K), or (K, M) where ``a_major`` is "mn"; ``b`` (K, N), or (N, K) where ``b_major`` is "k";
    ``out``, and each of them that differs from batch to batch, with an axis of batches before these.
    ``blocks``: of the grid, no more than run at the same time. ``visit``: see `nvdsl.kernels.blocks.epilogue.Visit`.
    ``direct``: ``out`` has any strides, and is stored to without TMA.
    """
    (*batches, M, N), K = out.shape, a.shape[-1 if a_major == "k" else -2]
    config.check(a.dtype, out.dtype, acc_dtype)
    A = TmaOperand(a, config.tile_m, config.tile_k, major=a_major, parts=config.sharers[0])
    B = TmaOperand(b, config.tile_n, config.tile_k, major=b_major, parts=config.sharers[1])
    D = (DirectEpilogue if direct else TmaEpilogue)(
        out, config.tile_n, buffers=config.store_buffers, visit=visit, operands=operands
    )
    tiles = TileScheduler(
        M, N, config.tile_m, config.tile_n, config.cluster_m, config.cluster_n, config.order, config.group, *batches
    )

    @nv.kernel(grid=blocks, block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        loop = Mainloop(config, A, B, steps=nv.cdiv(K, config.tile_k))
        D.allocate(config.consumers)
        first, step = nv.block_id.x // config.cluster, blocks // config.cluster
        loop.start(*tiles.start(first, loop.rank))
        if config.cluster > 1:
            nv.cluster_sync()
        else:
            nv.sync_threads()
        warpgroup = nv.warpgroup_id()

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(config.registers[0])
            if nv.warpgroup_thread() == 0:
                state = loop.ring.producer_state().advance(loop.started)
                for t in nv.range(first, tiles.count, step):
                    batch, row, col = tiles.start(t, loop.rank)
                    skip = nv.select(t == first, loop.started, 0)
                    backwards = t // step & 1 if config.alternate else 0
                    state = loop.load(state, batch, row, col, skip=skip, backwards=backwards)
        else:  # consumers
            nv.setmaxnreg_inc(config.registers[1])
            consumer = warpgroup - 1
            loop.clear(consumer)
            top = consumer * config.rows
            state = loop.ring.consumer_state()
            for t in nv.range(first, tiles.count, step):
                batch, row, col = tiles.start(t, loop.rank)
                held = D.ahead(batch, row + top, col, config.rows)
                acc, last, state = loop.multiply(state, top, nv.accumulator(config.rows, config.tile_n, acc_dtype))
                loop.finish(last)
                D.store(acc, batch, row + top, col, consumer, held)
            D.drain()

        if config.cluster > 1:  # a block stays while others still write into it
            nv.cluster_sync()

    kernel()
