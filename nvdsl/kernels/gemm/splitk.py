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
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm
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
    epilogue_op: EpilogueOp | None = None,
    direct_store: bool = False,
) -> None:
    """out[M, N] = A[M, K] @ B[K, N], as `nvdsl.kernels.gemm.cooperative.matmul`, but with a block for each of
    ``config.split`` parts of each tile. Blocks don't wait for other clusters: the grid may be larger than the GPU."""
    gemm = Gemm(a, b, out, operands, config, acc_dtype, a_major, b_major, epilogue_op, direct_store)
    tiles, epilogue = gemm.tiles, gemm.epilogue
    split, width, steps = config.split, config.tile_n // config.split, gemm.steps

    @nv.kernel(grid=tiles.count * split, block=config.threads, cluster=split)
    def kernel() -> None:
        rank, tile = nv.cluster_rank(), nv.block_id.x // split
        mainloop = gemm.prologue(tile, rank * steps)
        nv.cluster_arrive(relaxed=True)  # this block has begun: others may write into its memory
        reduction = ClusterReduction(split, config.consumers, config.rows, config.tile_n, acc_dtype)
        batch, row, col = tiles.start(tile)
        consumer = nv.warpgroup_id() - 1

        if nv.warpgroup_id() == 0:  # producer
            if nv.warpgroup_thread() == 0:
                state = mainloop.ring.producer_state().advance(mainloop.started)
                mainloop.load(state, batch, row, col, rank * steps, (rank + 1) * steps, skip=mainloop.started)
            nv.sync_warp()
            nv.cluster_wait()
            nv.cluster_sync()
        else:
            mainloop.clear(consumer)
            own = batch, row + consumer * config.rows, col + rank * width  # the columns that this block stores
            held = epilogue.prefetch(*own, config.rows)
            state = mainloop.ring.consumer_state()
            sums, last, _ = mainloop.multiply(state, consumer * config.rows, gemm.accumulator())
            nv.wgmma_wait(0)
            nv.cluster_wait()
            reduction.scatter(sums, rank, consumer)
            nv.cluster_sync()
            epilogue.store(reduction.reduce(consumer), *own, consumer, held)
            epilogue.drain()

    kernel()
