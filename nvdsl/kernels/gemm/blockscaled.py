"""GEMM of 8-bit floats with a scale for each 128 elements along K: of a row of A, of 128 columns of B.

The cooperative schedule; but sums of one slice of K (128 bytes are 128 elements, one block of scales) are kept apart,
and added to the tile's sums with their scales. Tensor cores add 8-bit products with 14 bits or so; this way they add
128 of them at most, and f32 registers the rest. While one consumer scales, the other multiplies.

    total[r, c] += scale_a[r, k] * scale_b[k, c // 128] * (A[r, slice k] @ B[slice k, c])
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.direct_epilogue import cut
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.frame import Gemm

BLOCK = 128
"""Elements along K, and columns of B, that share a scale."""

DEFAULT = Config(128, 128, 128, stages=6, group=16)


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    scale_a: nv.Array,
    scale_b: nv.Array,
    *,
    config: Config = DEFAULT,
    blocks: int,
    direct_store: bool = False,
) -> None:
    """out[M, N]: ``a`` (M, K) and ``b`` stored (N, K), e4m3 or e5m2, each with K contiguous.

    ``scale_a``: f32, (M, ceil(K / 128)). ``scale_b``: f32, (ceil(K / 128), ceil(N / 128)); both with any strides.
    ``blocks``: of the grid at most. ``config``: cooperative, of tiles of 128 columns at most, without clusters.
    ``direct_store``: ``out`` has any strides.
    """
    M, _ = out.shape
    config.check(a.dtype, out.dtype, nv.f32)
    nv.require(
        config.schedule == "cooperative" and BLOCK % config.tile_n == 0 and config.cluster == 1,
        f"{config} for a product with block scales",
        rule="the columns of a tile have one scale in each slice of K; the schedule is the cooperative one",
        fix="tile_n of 16, 32, 64 or 128, schedule='cooperative', no cluster",
    )
    gemm = Gemm(a, b, out, (), config, nv.f32, "k", "k", None, direct_store)
    tiles, epilogue = gemm.tiles, gemm.epilogue

    step = nv.min(tiles.count, blocks)

    @nv.kernel(grid=step, block=config.threads)
    def kernel() -> None:
        first = nv.block_id.x
        mainloop = gemm.prologue()

        if nv.warpgroup_id() == 0:
            gemm.produce(mainloop, first, step, alternate=False)  # scales are read in the order of K
        else:
            consumer = gemm.begin_consumer(mainloop)
            top = consumer * config.rows
            state = mainloop.ring.consumer_state()
            row0, _ = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
            for t in nv.range(first, tiles.count, step):
                batch, row, col = tiles.start(t)
                rows = [nv.min(row + top + row0 + r, M - 1) for r in range(0, config.rows, 8) if r % 64 < 16]
                total = nv.accumulator(config.rows, config.tile_n, nv.f32)
                for k in nv.range(gemm.steps, unroll=False):
                    of_b = scale_b[k, nv.min(col // BLOCK, scale_b.shape[1] - 1)]
                    scales = [scale_a[r, k] * of_b for r in rows]
                    mainloop.ring.wait(state)
                    part = nv.accumulator(config.rows, config.tile_n, nv.f32)
                    part += gemm.a.a(state.stage, top, config.rows) @ gemm.b.b(state.stage)
                    mainloop.finish(state)
                    total = scaled_sum(total, part, scales)
                    state = state.next()
                epilogue.store(total, batch, row + top, col, consumer)
            epilogue.drain()

    kernel()


@nv.jit
def gemm(
    a: nv.Array,
    b: nv.Array,
    out: nv.Array,
    scale_a: nv.Array,
    scale_b: nv.Array,
    *,
    sms: int,
    direct_store: bool = False,
    config: Config = DEFAULT,
) -> None:
    """`matmul` on all of ``sms`` SMs."""
    matmul.__wrapped__(a, b, out, scale_a, scale_b, config=config, blocks=sms, direct_store=direct_store or cut(out))


def scaled_sum(total: nv.Accumulator, part: nv.Accumulator, scales: list[Any]) -> nv.Accumulator:
    """``total + scale * part``; ``scales``: of the two rows that a thread has in each 64."""
    summed = []
    for block, (sums, products) in enumerate(zip(total.registers(), part.registers(), strict=True)):
        new = []
        for register, (x, y) in enumerate(zip(sums, products, strict=True)):
            row, _ = nv.layout.accumulator_element(0, register)
            new.append(x + scales[2 * block + row // 8] * y)
        summed.append(new)
    return total.with_registers(summed)
