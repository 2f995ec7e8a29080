"""Split-K through memory, for long K and larger results: parts of K are what batches are to a batched product.

    block 0 .. 7      K     0 ..  4095 of 8 tiles   -> sums[0]        then a kernel:
    block 8 .. 15     K  4096 ..  8191              -> sums[1]        out = sums[0] + sums[1] + ...
    ...

The tiles are as large as those of a whole product, and the blocks of a cluster may load together, so that operands
come from L2 as few times as there. Sums are f32, and are added up in the order of K by all SMs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.gemm import splitk_parts
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm

VECTOR = 4
"""Sums that a thread loads at once: 16 bytes."""
SHARERS, AHEAD = 8, 4
"""Threads that share the parts of a sum, and loads of each before it adds one, as long as there are so many."""


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
    least: int = splitk_parts.LEAST,
) -> None:
    """out[M, N] = A[M, K] @ B[K, N], as `nvdsl.kernels.gemm.cooperative.matmul`, but of ``config.parts`` parts of K at
    most, as many as run at the same time. ``direct_store`` makes no difference: threads store the result."""
    nv.require(out.ndim == 2, "parts of K beside an axis of batches", rule="parts are batches", fix="parts=1")
    nv.require(
        epilogue_op is None or callable(epilogue_op), f"{config} with a TileOp, as a gated product has",
        rule="a TileOp gets all sums of a tile from one consumer; parts of K are added up one by one", fix="parts=1",
    )  # fmt: skip
    (m, n), k = out.shape, a.shape[1 if a_major == "k" else 0]
    width = nv.cdiv(n, VECTOR) * VECTOR
    slices, tiles = nv.cdiv(k, config.tile_k), config.cluster * config.tiles(m, n)
    parts = splitk_parts.parts(tiles, slices, 1, blocks, config.parts, least)
    each = nv.cdiv(slices, parts)
    sums = nv.empty((parts, m, width), nv.i32 if acc_dtype == nv.i32 else nv.f32)
    multiply(Gemm(a, b, sums, (), config, acc_dtype, a_major, b_major, None, False), each)
    add_up(sums, out, operands, acc_dtype, epilogue_op)


def multiply(gemm: Gemm, steps: nv.Int) -> None:
    """Each part's sums, of ``steps`` slices of K. In a host function."""
    config, tiles, epilogue = gemm.config, gemm.tiles, gemm.epilogue
    gemm.steps = steps

    @nv.kernel(grid=tiles.count * config.cluster, block=config.threads, cluster=config.cluster)
    def multiply_parts() -> None:
        tile = nv.block_id.x // config.cluster
        begin = tiles.start(tile)[0] * steps
        mainloop = gemm.prologue(tile, begin)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(config.registers[0])
            if gemm.loads():
                state = mainloop.ring.producer_state().advance(mainloop.started)
                state = mainloop.load(state, *mainloop.first, begin, begin + steps, skip=mainloop.started)
                if config.cluster > 1:
                    mainloop.drain(state)  # others still write into this block, and arrive at its barriers
            elif gemm.spare():
                mainloop.clear()
        else:
            consumer = gemm.begin_consumer(mainloop)
            top, left = gemm.part(consumer)
            sums, last, _ = mainloop.multiply(mainloop.ring.consumer_state(), (top, left), gemm.accumulator())
            part, row, col = mainloop.first
            mainloop.finish(last)
            epilogue.store(sums, part, row + top, col + left, consumer)
            epilogue.drain()

    multiply_parts()


def add_up(
    sums: nv.Array, out: nv.Array, operands: Sequence[Any], acc_dtype: nv.DType, epilogue_op: EpilogueOp | None
) -> None:
    """``out``: the sums of all parts, visited. In a host function."""
    parts, m, width = sums.shape
    n, across = out.shape[1], width // VECTOR
    of_row = Divisor.of(across)

    @nv.kernel(grid=nv.cdiv(m * across, 32), block=(32, SHARERS), programmatic=True)
    def add_parts() -> None:
        lane, sharer = nv.thread_id.x, nv.thread_id.y
        row, col = of_row.divmod(nv.min(nv.block_id.x * 32 + lane, m * across - 1))
        each = nv.cdiv(parts, SHARERS)
        first, end = sharer * each, nv.min((sharer + 1) * each, parts)
        total = nv.vector([sums.dtype(0)] * VECTOR)
        nv.griddep_wait()
        full = first + nv.max(end - first, 0) // AHEAD * AHEAD
        for start in nv.range(first, full, AHEAD, unroll=False):
            loaded = [sums.vector((start + i, row, col * VECTOR), VECTOR) for i in range(AHEAD)]
            for values in loaded:
                total = total + values
        for part in nv.range(full, end, unroll=False):
            total = total + sums.vector((part, row, col * VECTOR), VECTOR)
        shared = nv.smem((SHARERS, 32 * VECTOR), sums.dtype)
        shared.store_vector(total, (sharer, lane * VECTOR))
        nv.sync_threads()
        thread = sharer * 32 + lane
        if thread < 32 * VECTOR:
            whole = shared[0, thread]
            for other in range(1, SHARERS):
                whole += shared[other, thread]
            row, unit = of_row.divmod(nv.block_id.x * 32 + thread // VECTOR)
            col = unit * VECTOR + thread % VECTOR
            if row < m and col < n:
                value = acc_dtype(whole)
                if epilogue_op is not None:
                    value = epilogue_op(value, nv.i32(0), row, col, *operands)
                out[row, col] = out.dtype(value)

    add_parts()
