"""GEMM of 8-bit floats with a scale for each 128 elements along K: of a row of A, of 128 columns of B.

The cooperative schedule; but sums of one slice of K (128 bytes are 128 elements, one block of scales) are kept apart,
and added to the tile's sums with their scales. Tensor cores add 8-bit products with 14 bits or so; this way they add
128 of them at most, and f32 registers the rest. While one consumer scales, the other multiplies.

    total[r, c] += scale_a[r, k] * scale_b[k, c // 128] * (A[r, slice k] @ B[slice k, c])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.direct_epilogue import cut
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp
from nvdsl.kernels.blocks.group_tiles import AllTiles, GroupTile, GroupTiles, NumberedTile
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler
from nvdsl.kernels.gemm.config import Config
from nvdsl.kernels.gemm.grouped import GroupedGemm, zero_rows
from nvdsl.ops.warp import WARP_GROUP_SIZE

BLOCK = 128
"""Elements along K, and columns of B, that share a scale."""

TILES = (
    Config(128, 192, 128, stages=4, store_buffers=1, group=12),
    Config(128, 128, 128, stages=6, store_buffers=1, group=16),
)
DEFAULT = TILES[0]
NARROW = 1.15
"""How much longer the second of `TILES` takes for as many columns, on an H200: its consumers wait for tensor cores and
for scales more often."""


@nv.jit
def matmul(
    a: nv.Array,
    b: nv.Array,
    scale_a: nv.Array,
    scale_b: nv.Array,
    out: nv.Array,
    *operands: Any,
    config: Config = DEFAULT,
    blocks: int,
    direct_store: bool = False,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """out[M, N]: ``a`` (M, K) and ``b`` stored (N, K), e4m3 or e5m2, each with K contiguous.

    ``scale_a``: f32, (M, ceil(K / 128)). ``scale_b``: f32, (ceil(K / 128), ceil(N / 128)); both with any strides.
    ``blocks``: of the grid at most. ``config``: cooperative, 64 rows for each consumer, whose registers hold the sums
    of a slice beside the tile's. ``direct_store``: ``out`` has any strides. ``epilogue_op``, ``operands``: see
    `nvdsl.kernels.blocks.epilogue_visitor.EpilogueOp`.
    """
    m, n = out.shape
    tile, cluster = (config.tile_m, config.tile_n), (config.cluster_m, config.cluster_n)
    tiles = AllTiles(TileScheduler(m, n, *tile, *cluster, config.group))
    _launch(a, b, scale_a, scale_b, out, operands, tiles, config, blocks, direct_store, epilogue_op)


@nv.jit
def grouped(
    a: nv.Array,
    b: nv.Array,
    offsets: nv.Array,
    scale_a: nv.Array,
    scale_b: nv.Array,
    out: nv.Array,
    *operands: Any,
    config: Config = DEFAULT,
    blocks: int,
    direct_store: bool = False,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """The same of groups of rows, as `nvdsl.kernels.gemm.grouped.matmul`: ``b`` and ``scale_b`` have an axis of groups
    before theirs. Rows of ``out`` behind the last group are zeroed."""
    tile, cluster = (config.tile_m, config.tile_n), (config.cluster_m, config.cluster_n)
    tiles = GroupTiles(offsets, out.shape, tile, cluster, config.group)
    _launch(a, b, scale_a, scale_b, out, operands, tiles, config, blocks, direct_store or cut(out), epilogue_op)


def _launch(
    a: nv.Array, b: nv.Array, scale_a: nv.Array, scale_b: nv.Array, out: nv.Array, operands: Sequence[Any],
    tiles: AllTiles | GroupTiles, config: Config, blocks: int, direct_store: bool, epilogue_op: EpilogueOp | None,
) -> None:  # fmt: skip
    config.check(a.dtype, out.dtype, nv.f32, "k")
    nv.require(
        config.schedule == "cooperative" and config.rows == 64 and config.tile_n % 16 == 0
        and config.tile_n <= 192 and config.along == "m" and not config.swap_ab,
        f"{config} for a product with block scales",
        rule="a consumer has 64 rows and up to 192 columns, each with two sums; the schedule is the cooperative one",
        fix="64 rows for each consumer, tile_n up to 192, schedule='cooperative'",
    )  # fmt: skip
    nv.require(
        config.stages >= Scales.WARPS,
        f"{config} for a product with block scales",
        rule=f"each of {Scales.WARPS} warps brings the scales of every third slice, and a slot tells a round from the "
        "next one, no further",
        fix=f"stages={Scales.WARPS}",
    )
    gemm = GroupedGemm(a, b, out, operands, config, nv.f32, "k", "k", epilogue_op, direct_store)
    epilogue = gemm.epilogue
    step = nv.min(tiles.most, blocks // config.cluster)

    @nv.kernel(grid=step * config.cluster, block=config.threads, cluster=config.cluster, programmatic=True)
    def kernel() -> None:
        first = nv.block_id.x // config.cluster
        scales = Scales(scale_a, scale_b, config)
        mainloop = gemm.prologue()

        if nv.warpgroup_id() == 0:
            gemm.load_groups(mainloop, tiles, first, step)  # scales are read in the order of K
            if nv.warp_id() > 0:
                begin = nv.i32(nv.warp_id() - 1)
                state = mainloop.ring.producer_state().advance(begin)
                tile = tiles.first(first, mainloop.rank)
                while tile.valid:
                    for k in nv.range(begin, gemm.steps, scales.WARPS, unroll=False):
                        scales.load(state, tile, k)
                        state = state.advance(scales.WARPS)
                    begin += nv.cdiv(nv.max(gemm.steps - begin, 0), scales.WARPS) * scales.WARPS - gemm.steps
                    tile = tile.next(step)
        else:
            consumer = gemm.begin_consumer(mainloop)
            top = consumer * config.rows
            state = mainloop.ring.consumer_state()
            tile = tiles.first(first, mainloop.rank)
            while tile.valid:
                total = nv.accumulator(config.rows, config.tile_n, nv.f32)
                for _ in nv.range(gemm.steps, unroll=False):
                    mainloop.ring.wait(state)
                    part = nv.accumulator(config.rows, config.tile_n, nv.f32)
                    part += mainloop.product(state, top, 0)
                    of_rows, of_cols = scales.read(state, top)
                    mainloop.finish(state)
                    total = scaled_sum(total, part, of_rows, of_cols)
                    state = state.next()
                at = tile.group, tile.row + top, tile.col
                held = epilogue.prefetch(*at, config.rows)  # now that there are registers for it
                epilogue.store(total, *at, consumer, held, tile.end)
                tile = tile.next(step)
            epilogue.drain()
            if isinstance(tiles, GroupTiles):
                thread = consumer * 128 + nv.warpgroup_thread()
                zero_rows(out, tiles.last, thread, 128 * config.consumers, direct_store)

    kernel()


class Scales:
    """The scales of a tile's slices on their way to the consumers: a ring beside that of the operands, with barriers of
    its own, as blocks of a cluster share operands and not scales. All threads of the block make it, before they meet.

    Where all SMs load, an answer of memory takes longer than a slice does. So the three warps of the producer's
    warpgroup that load no operands bring scales as far ahead as operands come, each warp every third slice: one scale
    for each row of the tile, and one for each equal part of its columns, so wide that its columns share a scale.
    """

    WARPS = WARP_GROUP_SIZE // WARP_SIZE - 1

    def __init__(self, scale_a: nv.Array, scale_b: nv.Array, config: Config) -> None:
        self.scale_a, self.scale_b, self.rows = scale_a, scale_b, config.tile_m
        self.width = math.gcd(BLOCK, config.tile_n)
        self.parts = config.tile_n // self.width
        self.each = self.rows + self.parts
        self.memory = nv.smem(config.stages * self.each, nv.f32)
        self.full = nv.Mbarriers(config.stages, arrivals=1, sync=False)
        self.empty = nv.Mbarriers(config.stages, arrivals=4 * config.consumers, sync=False)

    def load(self, state: nv.PipelineState, tile: GroupTile | NumberedTile, k: Any) -> None:
        """Bring those of slice ``k`` of a tile to a slot once it is free. By one warp."""
        row, col = tile.row, tile.col
        last_row, last_col = self.scale_a.shape[0] - 1, self.scale_b.shape[-1] - 1
        rows = range(0, self.rows, WARP_SIZE)
        lane = nv.lane_id()
        of_rows = [self.scale_a[nv.min(row + first + lane, last_row), k] for first in rows]
        column = (col + nv.min(lane, self.parts - 1) * self.width) // BLOCK
        at = k, nv.min(column, last_col)
        of_col = self.scale_b[(tile.group, *at) if self.scale_b.ndim == 3 else at]
        self.empty[state.stage].wait(state.phase)
        start = state.stage * self.each + lane
        for first, scale in zip(rows, of_rows, strict=True):
            self.memory[start + first] = scale
        if lane < self.parts:
            self.memory[start + self.rows] = of_col
        nv.sync_warp()
        self.full[state.stage].arrive(predicate=lane == 0)

    def read(self, state: nv.PipelineState, top: Any) -> tuple[list[Any], list[Any]]:
        """Of this thread's two rows of the 64 from ``top`` on, and of the columns' parts."""
        row0, _ = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
        self.full[state.stage].wait(state.phase)
        start = state.stage * self.each
        of_rows = [self.memory[start + top + row0 + r] for r in (0, 8)]
        of_cols = [self.memory[start + self.rows + i] for i in range(self.parts)]
        nv.sync_warp()  # all lanes have read them
        self.empty[state.stage].arrive(predicate=nv.lane_id() == 0)
        return of_rows, of_cols


def choose(m: int, n: int, sms: int, batches: int = 1) -> Config:
    """The one of `TILES` whose rounds over ``sms`` SMs take less time; one consumer where 64 rows are enough."""
    if m <= 64:
        return replace(TILES[1], tile_m=64, consumers=1)

    def rounds(config: Config) -> float:
        tiles = batches * nv.cdiv(m, config.tile_m) * nv.cdiv(n, config.tile_n)
        return nv.cdiv(tiles, sms) * config.tile_n * (NARROW if config is TILES[1] else 1.0)

    return min(TILES, key=rounds)


@nv.jit
def gemm(
    a: nv.Array,
    b: nv.Array,
    scale_a: nv.Array,
    scale_b: nv.Array,
    out: nv.Array,
    *operands: Any,
    sms: int,
    direct_store: bool = False,
    config: Config = DEFAULT,
    epilogue_op: EpilogueOp | None = None,
) -> None:
    """`matmul` on all of ``sms`` SMs."""
    direct_store = direct_store or cut(out)
    matmul.__wrapped__(
        a, b, scale_a, scale_b, out, *operands,
        config=config, blocks=sms, direct_store=direct_store, epilogue_op=epilogue_op,
    )  # fmt: skip


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
