"""GEMM for few tiles: the blocks of a cluster share a tile of the result, each multiplies its part of K.

    block 0 of a cluster of 4   load and multiply K   0 ..  255 | give | add columns  0..31 | store
    block 1                     load and multiply K 256 ..  511 | give | add columns 32..63 | store
    ...

A result of few rows has few tiles, and the time is that of reading B: all SMs have to read, and keep much in flight. So
a block has one tile and leaves; where two fit on an SM, one loads while the other begins or ends. The sums are added
in a fixed order: the same bits in every run.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.gemm import splitk_parts
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm
from nvdsl.kernels.gemm.splitk_parts import LEAST, PartsWorkspace
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
    clusters: int = 1,
    least: int = LEAST,
) -> None:
    """out[M, N] = A[M, K] @ B[K, N], as `nvdsl.kernels.gemm.cooperative.matmul`, but with a block for each of
    ``config.split`` parts of each tile; and where K is long, with up to ``config.parts`` such clusters for each.
    ``clusters``: how many run at the same time. None waits but for clusters of lower numbers: the grid may be larger
    than the GPU. ``least``: slices of K that are worth a block's while, where there are several clusters."""
    gemm = Gemm(a, b, out, operands, config, acc_dtype, a_major, b_major, epilogue_op, direct_store, defined=True)
    launch(gemm, clusters, least)


def launch(gemm: Gemm, clusters: int, least: int = LEAST) -> None:
    """Run the kernel of a product, see `matmul`. In a host function."""
    config, acc_dtype = gemm.config, gemm.acc_dtype
    tiles, epilogue = gemm.tiles, gemm.epilogue
    split, width, count = config.split, config.tile_n // config.split, tiles.count
    parts: Any = 1
    bits: Any = 0
    workspace: Any = None
    if config.parts > 1:
        parts = splitk_parts.parts(count, gemm.slices, split, clusters, config.parts, least)
        bits = splitk_parts.group_bits(parts)
        gemm.steps = nv.cdiv(gemm.slices, split * parts)
        workspace = PartsWorkspace(clusters * split * config.consumers, config.rows, width, acc_dtype)
    steps, of_tiles = gemm.steps, Divisor.of(count)

    @nv.kernel(
        grid=count * parts * split, block=config.threads + 128 * (gemm.producers - 1), cluster=split,
        blocks_per_sm=gemm.blocks_per_sm, programmatic=True,
    )  # fmt: skip
    def kernel() -> None:
        rank, tile = nv.cluster_rank(), nv.block_id.x // split
        part: nv.Int = 0
        if workspace is not None:
            part, tile = of_tiles.divmod(tile)  # type: ignore[assignment]
        begin = (part * split + rank) * steps
        mainloop = gemm.prologue(tile, begin)
        reduction = None
        if split > 1:
            if not config.sums_in_ring:
                nv.cluster_arrive(relaxed=True)  # this block has begun: others may write into its memory
            larger = gemm.a if config.tile_m >= config.tile_n else gemm.b
            slots = larger.stack.first.offset if config.sums_in_ring else None
            reduction = ClusterReduction(split, config.consumers, config.rows, config.tile_n, acc_dtype, slots)
        consumer = nv.warpgroup_id() - gemm.producers

        if nv.warpgroup_id() < gemm.producers:
            if gemm.loads():
                state = mainloop.ring.producer_state().advance(mainloop.started)
                mainloop.load(state, *mainloop.first, begin, begin + steps, skip=mainloop.started)
            elif gemm.spare():
                mainloop.clear()
            if reduction is not None:
                nv.sync_warp()
                if config.sums_in_ring:
                    nv.cluster_arrive()
                nv.cluster_wait()
                nv.cluster_sync()
        else:
            mainloop.wait_cleared()
            batch, row, col = mainloop.first
            own = batch, row + consumer * config.rows, col + rank * width  # the columns that this block stores
            held = epilogue.prefetch(*own, config.rows)
            state = mainloop.ring.consumer_state()
            total, last, _ = mainloop.multiply(state, gemm.part(consumer), gemm.accumulator())
            nv.wgmma_wait(0)
            if reduction is not None:
                if config.sums_in_ring:
                    nv.cluster_arrive()  # no slot is read here any more: others may write into it
                nv.cluster_wait()
                reduction.scatter(total, rank, consumer)
                nv.cluster_sync()
                total = reduction.reduce(total, rank, consumer)
            slot = (tile * split + rank) * config.consumers + consumer
            step = count * split * config.consumers  # from one part's slots to the next one's
            if workspace is not None:
                group = part >> bits
                first, last = group << bits, nv.min((group + 1) << bits, parts) - 1
                for of_groups in nv.range(2, unroll=False):  # a loop, for the code of a sum takes long to compile
                    begin = slot + nv.select(of_groups == 0, first, (1 << bits) - 1) * step
                    within, beyond = nv.select(part == last, part - first, 0), nv.select(part + 1 == parts, group, 0)
                    given = nv.select(of_groups == 0, within, beyond)
                    if given > 0:
                        total = workspace.sum(total, begin, step << (of_groups * bits), given, consumer + 1)
            if part + 1 < parts:
                workspace.store(total, slot + part * step, consumer + 1)
            else:
                epilogue.store(total, *own, consumer, held)
                epilogue.drain()

    kernel()
