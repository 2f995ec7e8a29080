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
    ``blocks``: of the grid at most. ``config``: cooperative, 64 rows for each consumer, whose registers hold the sums
    of a slice beside the tile's. ``direct_store``: ``out`` has any strides.
    """
    M, _ = out.shape
    config.check(a.dtype, out.dtype, nv.f32)
    nv.require(
        config.schedule == "cooperative" and config.rows == 64 and (config.tile_n % 64 == 0 or 64 % config.tile_n == 0)
        and config.tile_n <= 192 and config.cluster_n == 1 and config.along == "m" and not config.swap_ab,
        f"{config} for a product with block scales",
        rule="64 columns that begin at a multiple of 64 have one scale in each slice of K; a consumer has 64 rows, of "
        "which it holds two sums; the schedule is the cooperative one",
        fix="tile_n of 16, 32, 64, 128 or 192, 64 rows for each consumer, schedule='cooperative'",
    )  # fmt: skip
    gemm = Gemm(a, b, out, (), config, nv.f32, "k", "k", None, direct_store)
    tiles, epilogue = gemm.tiles, gemm.epilogue

    step = nv.min(tiles.count, blocks // config.cluster)

    @nv.kernel(grid=step * config.cluster, block=config.threads, cluster=config.cluster)
    def kernel() -> None:
        first = nv.block_id.x // config.cluster
        mainloop = gemm.prologue()

        if nv.warpgroup_id() == 0:
            gemm.produce(mainloop, first, step, alternate=False)  # scales are read in the order of K
        else:
            consumer = gemm.begin_consumer(mainloop)
            top = consumer * config.rows
            state = mainloop.ring.consumer_state()
            row0, _ = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
            for t in nv.range(first, tiles.count, step):
                batch, row, col = tiles.start(t, mainloop.rank)
                rows = [nv.min(row + top + row0 + r, M - 1) for r in (0, 8)]
                # One for each block of columns that the tile touches.
                cols = range(0, config.tile_n, min(64, config.tile_n) if BLOCK % config.tile_n else config.tile_n)
                columns = [nv.min((col + c) // BLOCK, scale_b.shape[1] - 1) for c in cols]
                total = nv.accumulator(config.rows, config.tile_n, nv.f32)
                scales = _scales(scale_a, scale_b, rows, columns, 0)
                for k in nv.range(gemm.steps, unroll=False):
                    mainloop.ring.wait(state)
                    part = nv.accumulator(config.rows, config.tile_n, nv.f32)
                    part += mainloop.product(state, top, 0)
                    following = _scales(scale_a, scale_b, rows, columns, nv.min(k + 1, gemm.steps - 1))
                    mainloop.finish(state)
                    total = scaled_sum(total, part, *scales)
                    scales = following
                    state = state.next()
                epilogue.store(total, batch, row + top, col, consumer)
            epilogue.drain()

        gemm.end()

    kernel()


def _scales(scale_a: nv.Array, scale_b: nv.Array, rows: list[Any], columns: list[Any], k: Any) -> list[list[Any]]:
    """Of slice ``k``: the scales of two rows, and of blocks of columns. Read a slice ahead: nobody waits for them."""
    return [[scale_a[row, k] for row in rows], [scale_b[k, column] for column in columns]]


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


def scaled_sum(total: nv.Accumulator, part: nv.Accumulator, of_rows: list[Any], of_cols: list[Any]) -> nv.Accumulator:
    """``total + scale * part``. ``of_rows``: of the two rows that a thread has; ``of_cols``: of equal parts of the
    columns."""
    width = total.n // len(of_cols)
    scales = [[x * y for y in of_cols] for x in of_rows]
    (sums,), (products,) = total.registers(), part.registers()
    new = []
    for register, (x, y) in enumerate(zip(sums, products, strict=True)):
        row, col = nv.layout.accumulator_element(0, register)
        new.append(nv.math.fma(scales[row // 8][col // width], y, x))
    return total.with_registers([new])
