"""GEMM for few tiles: the blocks of a cluster share a tile of the result, each multiplies its part of K.

    block 0 of a cluster of 4   load and multiply K   0 ..  255 | give | add columns  0..31 | store
    block 1                     load and multiply K 256 ..  511 | give | add columns 32..63 | store
    ...

A result of few rows has few tiles, and the time is that of reading B: all SMs have to read, and keep much in flight. So
a block has one tile and leaves; where two fit on an SM, one loads while the other begins or ends. The sums are added
in the order of K: the same bits in every run.
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
from nvdsl.kernels.gemm.splitk_reduction import ClusterReduction


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    *operands: Any,
    config: Config,
    a_major: str = "k",
    b_major: str = "mn",
    acc_dtype: nv.DType = nv.f32,
    visit: Visit | None = None,
    direct: bool = False,
) -> None:
    """out[M, N] = A[M, K] @ B[K, N], as `nvdsl.kernels.gemm.cooperative.matmul`, but with a block for each of
    ``config.split`` parts of each tile. Blocks don't wait for other clusters: the grid may be larger than the GPU."""
    (*batches, M, N), K = out.shape, a.shape[-1 if a_major == "k" else -2]
    config.check(a.dtype, out.dtype, acc_dtype)
    split, width = config.split, config.tile_n // config.split
    A = TmaOperand(a, config.tile_m, config.tile_k, major=a_major)
    B = TmaOperand(b, config.tile_n, config.tile_k, major=b_major)
    D = (DirectEpilogue if direct else TmaEpilogue)(
        out, width, buffers=config.store_buffers, visit=visit, operands=operands
    )
    tiles = TileScheduler(M, N, config.tile_m, config.tile_n, 1, 1, config.order, config.group, *batches)
    # Equal parts; beyond the end of K, TMA reads zeros.
    steps = nv.cdiv(nv.cdiv(K, config.tile_k), split)

    @nv.kernel(grid=tiles.count * split, block=config.threads, cluster=split)
    def kernel() -> None:
        loop = Mainloop(config, A, B, steps=steps)
        D.allocate(config.consumers)
        exchange = ClusterReduction(split, config.consumers, config.rows, config.tile_n, acc_dtype)
        rank = nv.cluster_rank()
        batch, row, col = tiles.start(nv.block_id.x // split)
        loop.start(batch, row, col, rank * steps)
        nv.sync_threads()
        nv.cluster_arrive(relaxed=True)  # this block has begun: others may write into its memory
        warpgroup = nv.warpgroup_id()
        consumer = warpgroup - 1

        if warpgroup == 0:  # producer
            if nv.warpgroup_thread() == 0:
                state = loop.ring.producer_state().advance(loop.started)
                loop.load(state, batch, row, col, rank * steps, (rank + 1) * steps, skip=loop.started)
            nv.sync_warp()
            nv.cluster_wait()
            nv.cluster_sync()
        else:  # consumers
            loop.clear(consumer)
            own = batch, row + consumer * config.rows, col + rank * width  # the columns that this block stores
            held = D.ahead(*own, config.rows)
            sums = nv.accumulator(config.rows, config.tile_n, acc_dtype)
            sums, last, _ = loop.multiply(loop.ring.consumer_state(), consumer * config.rows, sums)
            nv.wgmma_wait(0)
            nv.cluster_wait()
            exchange.give(sums, rank, consumer)
            nv.cluster_sync()
            D.store(exchange.take(consumer), *own, consumer, held)
            D.drain()

    kernel()
