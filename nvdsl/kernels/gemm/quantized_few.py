"""GEMM of very few rows of f16 or bf16 and weights of 4 or 8 bits, by mma.sync: reading the weights is all the time.

The transpose is computed, as in `quantized`: weights are A, 16 columns of ``w`` and 16 elements of K in an instruction,
and eight rows of ``x`` are B. wgmma takes as long for 8 rows as for 32; a warp's own instruction does not, and nothing
waits for it.

    team 0       slices 0, 3, 6, ... : load x, weights, scales | weights -> floats | multiply | total += scale * sums
    team 1       slices 1, 4, 7, ...
    team 2       ...                              then the teams' totals are added, and those of the cluster's blocks

A team is a warp for each so many columns of the tile. Each slice belongs to one team, and one lane of the team
loads it: teams meet only at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.kernels.blocks.dequantize import BITS, dequantized
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.gemm.quantized_operands import (
    BESIDE_SLOTS,
    COLUMNS_OF_PART,
    SLICE,
    SPLITS,
    Operands,
    OwnRing,
    Slot,
    rotated,
)
from nvdsl.kernels.gemm.quantized_sums import TileSums
from nvdsl.lang.pipeline import PipelineState
from nvdsl.layout import E, Layout

BAND, STEP = 16, 16
"""Columns of w, and elements of K, of one mma.sync."""
ROWS = 8
"""Rows of x of one mma.sync."""
CHUNK = 64
"""Elements of K for which a warp holds its part of x."""


@dataclass(frozen=True)
class FewRowsConfig:
    """``rows``: of ``x`` in a tile, a multiple of 8 up to 32. ``cols``: its columns, a multiple of 16 up to 256.
    ``teams``: warps that take slices of K in turn. ``stages``: slots of the ring, a multiple of ``teams``. ``split``:
    blocks of a cluster, each with a part of K. ``blocks_per_sm``: that share an SM. ``part``: columns of a warp."""

    rows: int
    cols: int = 256
    teams: int = 2
    stages: int = 4
    split: int = 1
    blocks_per_sm: int = 1
    part: int = 32

    @property
    def warps(self) -> int:
        """Of all teams."""
        return self.teams * self.cols // self.part

    @property
    def threads(self) -> int:
        """Of all teams."""
        return WARP_SIZE * self.warps

    def smem_bytes(self, bits: int, group: int, scale_bytes: int, zeros: bool) -> int:
        """Shared memory of a block."""
        slot = Operands.slot_bytes(self.rows, self.cols, bits, group, scale_bytes * (1 + zeros))
        sums = TileSums.bytes(self.rows, self.cols, self.teams)
        return self.stages * (slot + 2 * arch.MBARRIER_BYTES) + BESIDE_SLOTS + sums

    def problems(self) -> list[str]:
        """What is wrong with it."""
        checks = (
            (self.rows in range(8, 33, 8), f"{self.rows} rows: a multiple of 8 up to 32"),
            (self.cols in range(BAND, 257, BAND), f"{self.cols} columns: a multiple of {BAND} up to 256"),
            (
                self.part in range(BAND, self.cols + 1, BAND) and self.cols % self.part == 0,
                f"{self.part} columns of a warp: a multiple of {BAND} that divides the columns",
            ),
            (
                self.rows * self.part <= 1024 or self.warps <= 8 and self.rows * self.part <= 1792,
                f"{self.rows} rows and {self.part} columns of each of {self.warps} warps: 1,024 sums, 1,792 of 8 warps",
            ),
            (self.split in SPLITS, f"split {self.split}: 1, 2, 4 or 8"),
            (self.teams >= 1 and self.warps <= 16, f"{self.teams} teams: {self.warps} warps, of 16 at most"),
            (
                self.teams >= 1 and self.stages >= 1 and self.stages % self.teams == 0,
                f"{self.stages} stages: a multiple of {self.teams} teams, so that a slot is always the same team's",
            ),
        )
        return [said for holds, said in checks if not holds]


@nv.jit
def matmul(
    x: nv.Array,
    weights: nv.Array,
    scales: nv.Array,
    out: nv.Array,
    *more: Any,
    kind: str,
    group: int,
    config: FewRowsConfig,
    zeros: bool = False,
    bias: bool = False,
    activation: Callable[[Any], Any] | None = None,
    vectors: bool = False,
) -> None:
    """out[M, N] = activation(x[M, K] @ w[K, N] + bias), as `quantized.matmul`."""
    M, N = out.shape
    steps = nv.cdiv(nv.cdiv(x.shape[1], SLICE), config.split)
    tables = [scales, more[0]] if zeros else [scales]
    operands = Operands(x, weights, tables, kind, group, config.rows, config.cols, config.stages, once=True)
    parts, of_steps = config.cols // config.part, Divisor.of(steps)
    # Blocks of the next kernel take the places of this one's as these end. Where an SM has place for two, blocks of the
    # kernel after that would take it from them: layers of 4096 x 4096 took 8.9 us instead of 5.3 on an H200.
    scale_bytes = sum(table.dtype.bytes for table in tables)
    alone = 2 * config.smem_bytes(BITS[kind], group, scale_bytes, False) > arch.SMEM_PER_SM

    @nv.kernel(
        grid=(config.split * nv.cdiv(N, config.cols), nv.cdiv(M, config.rows)), block=config.threads,
        cluster=config.split, blocks_per_sm=config.blocks_per_sm, programmatic=True,
    )  # fmt: skip
    def kernel() -> None:
        rank = nv.cluster_rank() if config.split > 1 else 0
        row0, tile = nv.block_id.y * config.rows, nv.block_id.x // config.split
        begin = tile * config.cols
        # The slice that a tile begins with. Of more rows it took 1 to 3 % longer on an H200.
        turned = of_steps.divmod(tile)[1] if config.rows == ROWS else 0
        col0 = operands.left(begin)
        operands.allocate()
        sums = TileSums(out, config.rows, config.cols, config.teams, config.split,
                        bias=more[-1] if bias else None, activation=activation, vectors=vectors)  # fmt: skip
        ring = OwnRing(config.stages, bytes=operands.bytes, consumers=parts)

        team, left = nv.warp_id() // parts, nv.warp_id() % parts * config.part
        loads = (left == 0) & nv.elect()  # of an elected lane ptxas knows that it is alone: copies need no loops
        if loads:
            ring.begin(team, config.teams)
        state = ring.consumer_state().advance(team)
        if alone:
            nv.griddep_launch_dependents()
        nv.griddep_wait()
        if not alone:
            nv.griddep_launch_dependents()
        if loads:
            for step in nv.range(team, nv.min(config.stages, steps), config.teams, unroll=False):
                full = ring.acquire(PipelineState(config.stages, step), new=True)
                operands.load(step, full, row0, col0, rank * steps + rotated(step, turned, steps))
        operands.clear(nv.thread_id.x, config.threads)
        nv.sync_threads()
        nibbles = operands.nibbles[0]
        totals = [nv.f32(0)] * (config.part // BAND * config.rows // ROWS * 4)
        for step in nv.range(team, steps, config.teams, unroll=False):
            ring.wait(state)
            totals = add_slice(totals, operands, Slot(0, state.stage), left, config.part // BAND, nibbles)
            nv.sync_warp()  # all lanes have read their operands
            ring.release(state, nv.lane_id() == 0)
            if (left == 0) & nv.elect() & (step + config.stages < steps):
                k = rank * steps + rotated(step + config.stages, turned, steps)
                operands.load(state.stage, ring.acquire(state), row0, col0, k)
            state = state.advance(config.teams)
        store(totals, sums.memory, team * config.rows, left, config)

        sums.store(row0, col0, rank, config.threads, first=begin)

    kernel()


def add_slice(totals: list[Any], operands: Operands, slot: Slot, left: Any, bands: int, nibbles: Any) -> list[Any]:
    """``totals`` and the scaled products of a slot's slice with ``bands`` times 16 columns of the tile, from ``left``
    on. By a warp, whose lanes hold sums as mma.sync has them: of 16 columns and 8 rows of x, after the rows before."""
    new = list(totals)
    tall, lane = operands.rows // ROWS, nv.lane_id()
    column, _ = nv.layout.mma_c(BAND, ROWS)(lane, 0)
    for number in range(operands.groups):
        tables = [operands.of_columns(slot, number, left + band * BAND + column) for band in range(bands)]
        # A chain of products waits for itself: where there are few, each is two.
        ways = 2 if bands * tall <= 2 else 1
        sums: list[list[list[Any]]] = [[[nv.f32(0)] * 4 for _ in range(ways)] for _ in range(bands * tall)]
        count = min(operands.width, CHUNK)
        for k in range(number * operands.width, (number + 1) * operands.width, count):
            x = [_rows_of_x(operands.X[slot.number], row, k, count) for row in range(0, operands.rows, ROWS)]
            for band in range(bands):
                first = left + band * BAND
                words = operands.words_of(slot, first // COLUMNS_OF_PART, lane, k, count, nibbles)
                a = dequantized(words, operands.kind, operands.dtype, tables[band][1])
                for j, step in itertools.product(range(tall), range(count // STEP)):
                    of_w, of_x = a[4 * step : 4 * step + 4], x[j][2 * step : 2 * step + 2]
                    chain = sums[band * tall + j]
                    chain[step % ways] = nv.mma_sync(of_w, of_x, chain[step % ways], k=STEP, a_dtype=operands.dtype)
        for at, (band, j, value) in enumerate(itertools.product(range(bands), range(tall), range(4))):
            first, *others = sums[band * tall + j]
            products = first[value] + others[0][value] if others else first[value]
            new[at] = nv.math.fma(tables[band][0][value // 2], products, new[at])
    return new


def store(totals: list[Any], sums: nv.Tile, top: Any, left: Any, config: FewRowsConfig) -> None:
    """Write a warp's totals to shared memory, as rows of the result from (``top``, ``left``) on."""
    right, down = nv.layout.mma_c(BAND, ROWS)(nv.lane_id(), 0)
    places = itertools.product(range(0, config.part, BAND), range(0, config.rows, ROWS), range(4))
    for (band, row, value), total in zip(places, totals, strict=True):
        c, r = nv.layout.mma_c(BAND, ROWS)(0, value)
        sums[top + row + down + r, left + band + right + c] = total


def _rows_of_x(X: nv.Tile, row: int, first: int, count: int) -> list[Any]:
    """Eight rows of x, elements ``first`` to ``first + count - 1`` of a slice: B of mma.sync, two registers for each 16
    elements."""
    found: list[Any] = []
    for k in range(first, first + count, 32):
        found += X.ldmatrix((row, k), 4, matrices=Layout(4, E(0, 8)))
    return found
