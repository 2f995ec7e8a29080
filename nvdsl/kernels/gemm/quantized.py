"""GEMM of a few rows of f16 or bf16 and weights of 4 or 8 bits, which become 16-bit floats on the way to wgmma.

wgmma takes A from registers, and B from shared memory. So the transpose is computed, ``out.T = w.T @ x.T``: weights are
A, 64 columns of ``w`` for each consumer warpgroup. They are packed in the order of the registers: a thread reads its
own, 16 bytes at a time, and computes the floats (`blocks.dequantize`), which nobody writes anywhere.

    producer     x (rows x 128), weights (128 x columns), scales: load | load | ...
    consumers    weights -> registers -> floats | multiply | total += scale * sums

Integers are exact in 16 bits. The sums of a group along K are kept apart and added with the group's scale, in f32. Few
rows are no work for all SMs unless they share K: the blocks of a cluster sum a part each, and add up through their
shared memory, in the order of K.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.dequantize import dequantized
from nvdsl.kernels.gemm.quantized_operands import (
    BESIDE_SLOTS,
    COLUMNS_OF_PART,
    ROW,
    SLICE,
    SPLITS,
    THREADS_OF_PART,
    Operands,
)
from nvdsl.lang.fragment import operand_of

HIGH = 64
"""Columns of w that a wgmma multiplies: rows of A."""
FLOATS, SPARE = 32, 32
"""Registers of a slice of 64 columns, of which there are two; and of a thread beside these and two sums of each row."""


@dataclass(frozen=True)
class QuantizedConfig:
    """``rows``: of ``x`` in a tile, a multiple of 8 up to 128. ``warpgroups``: consumers. ``stages``: slots of the
    ring. ``split``: blocks of a cluster, each with a part of K. ``blocks_per_sm``: that share an SM. ``parts``: of 64
    columns that a consumer has, 1 or 2."""

    rows: int
    warpgroups: int = 2
    stages: int = 4
    split: int = 1
    blocks_per_sm: int = 1
    parts: int = 1

    @property
    def threads(self) -> int:
        """Consumers, and a warpgroup that loads."""
        return 128 * (1 + self.warpgroups)

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread that loads, and of one that multiplies: what that leaves."""
        all = arch.launch_registers(self.threads * self.blocks_per_sm) * (1 + self.warpgroups)
        loader = 40 if self.warpgroups * self.blocks_per_sm > 3 else 56
        return loader, min((all - loader) // self.warpgroups // 8 * 8, 240)

    @property
    def cols(self) -> int:
        return HIGH * self.parts * self.warpgroups

    def smem_bytes(self, bits: int, group: int, scale_bytes: int, zeros: bool) -> int:
        """Shared memory of a block."""
        slot = Operands.slot_bytes(self.rows, self.cols, bits, group, scale_bytes * (1 + zeros))
        sums = self.rows * (self.cols + ROW) * 4
        return self.stages * (slot + 2 * arch.MBARRIER_BYTES) + BESIDE_SLOTS + sums

    def problems(self) -> list[str]:
        """What is wrong with it."""
        checks = (
            (self.rows in range(8, 129, 8), f"{self.rows} rows: a multiple of 8 up to 128"),
            (self.warpgroups in (1, 2), f"{self.warpgroups} warpgroups: 1 or 2, as columns are packed by 256"),
            (self.split in SPLITS, f"split {self.split}: 1, 2, 4 or 8"),
            (self.stages >= 2, f"{self.stages} stages: 2 or more"),
            (self.parts in (1, 2), f"{self.parts} parts: 1 or 2"),
        )
        found = [said for holds, said in checks if not holds]
        if not found and self.rows * self.parts + 2 * FLOATS + SPARE > self.registers[1]:
            found.append(f"{self.rows} rows of {self.warpgroups} warpgroups: {self.registers[1]} registers of a thread")
        return found


@nv.jit
def matmul(
    x: nv.Array,
    weights: nv.Array,
    scales: nv.Array,
    out: nv.Array,
    *more: Any,
    kind: str,
    group: int,
    config: QuantizedConfig,
    zeros: bool = False,
    bias: bool = False,
    activation: Callable[[Any], Any] | None = None,
) -> None:
    """out[M, N] = activation(x[M, K] @ w[K, N] + bias).

    ``weights``: i32, as `nvdsl.QuantizedWeight` packs them: a row for each 256 columns of w. ``scales``: (groups,
    columns rounded up); ``more``: zero points like them, and a bias of (N,), where ``zeros`` and ``bias`` say so.
    """
    M, N = out.shape
    # All products are waited for after two units or more: one is multiplied while the other's weights become floats.
    together = 2 if config.parts == 1 and group >= SLICE and config.rows <= HIGH else 1  # ptxas spills of 128 rows
    steps = nv.cdiv(nv.cdiv(x.shape[1], SLICE), config.split * together) * together
    tables = [scales, more[0]] if zeros else [scales]
    operands = Operands(x, weights, tables, kind, group, config.rows, config.cols, config.stages,
                        once=nv.cdiv(M, config.rows) == 1)  # fmt: skip

    @nv.kernel(
        grid=(config.split * nv.cdiv(N, config.cols), nv.cdiv(M, config.rows)), block=config.threads,
        cluster=config.split, blocks_per_sm=config.blocks_per_sm, programmatic=True,
    )  # fmt: skip
    def kernel() -> None:
        rank = nv.cluster_rank() if config.split > 1 else 0
        row0, col0 = nv.block_id.y * config.rows, nv.block_id.x // config.split * config.cols
        operands.allocate()
        sums = nv.smem((config.rows, config.cols + ROW), nv.f32)
        ring = nv.Ring(config.stages, bytes=operands.bytes, consumers=4 * config.warpgroups)

        nv.griddep_wait()
        nv.griddep_launch_dependents()
        if nv.warpgroup_id() == config.warpgroups:
            nv.setmaxnreg_dec(config.registers[0])
            if nv.warpgroup_thread() == 0:
                state = ring.producer_state()
                for step in nv.range(steps, unroll=False):
                    operands.load(state.stage, ring.acquire(state), row0, col0, rank * steps + step)
                    state = state.next()
        else:
            nv.setmaxnreg_inc(config.registers[1])
            consumer, thread = nv.warpgroup_id(), nv.warpgroup_thread()
            state = ring.consumer_state()
            left = consumer * config.parts * HIGH
            totals = [nv.accumulator(HIGH, config.rows, nv.f32) for _ in range(config.parts)]
            slices = Slices(operands, left, config.parts)
            for _ in nv.range(steps // together, unroll=False):
                totals, state = slices.add(totals, state, ring, together)
            for part, total in enumerate(totals):
                (values,) = total.registers()
                for register, value in enumerate(values):
                    right, down = nv.layout.accumulator_element(thread, register)
                    sums[down, left + part * HIGH + right] = value

        if config.split > 1:
            nv.cluster_sync()
        else:
            nv.sync_threads()
        # Of the rows of the tile, each block of the cluster stores its part.
        each = nv.cdiv(config.rows, config.split)
        for number in nv.range(nv.thread_id.x, each * config.cols, config.threads):
            r, c = rank * each + number // config.cols, number % config.cols
            if (r < config.rows) & (row0 + r < M) & (col0 + c < N):
                value = sums[r, c] if config.split == 1 else nv.f32(0)
                for block in range(config.split if config.split > 1 else 0):
                    value += sums.at(block)[r, c]
                if bias:
                    value += nv.f32(more[-1][col0 + c])
                out[row0 + r, col0 + c] = value if activation is None else activation(value)
        if config.split > 1:
            nv.cluster_sync()

    kernel()


class Slices:
    """The slices in a ring, and the sums of a warpgroup's columns from ``left`` on, ``parts`` times 64.

    A slice has units: 64 columns of a group along K. While one unit is multiplied, the next one's weights become
    floats.
    """

    def __init__(self, operands: Operands, left: Any, parts: int) -> None:
        self.operands, self.nibbles = operands, operands.nibbles[0]
        self.units = [
            (number, part, left + part * HIGH) for number in range(operands.groups) for part in range(parts)
        ]

    def weights(self, stage: Any, unit: int) -> list[Any]:
        """A unit's weights, unpacked: all but the last step, which writes the registers of A."""
        operands, (number, _, column) = self.operands, self.units[unit]
        thread, first = nv.warpgroup_thread(), number * operands.width
        part = column // COLUMNS_OF_PART + thread // THREADS_OF_PART
        return operands.words_of(stage, part, thread % THREADS_OF_PART, first, operands.width, self.nibbles)

    def _of_columns(self, stage: Any, unit: int) -> tuple[list[Any], list[Any]]:
        number, _, column = self.units[unit]
        top, _ = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
        return self.operands.of_columns(stage, number, column + top)

    def add(
        self, totals: list[nv.Accumulator], state: nv.PipelineState, ring: nv.Ring, count: int
    ) -> tuple[list[nv.Accumulator], nv.PipelineState]:
        """``totals`` with the scaled products of the next ``count`` slots, which are released; and the ring's position
        behind them."""
        operands, new = self.operands, list(totals)
        issued: list[tuple[int, nv.Accumulator, list[Any], nv.PipelineState | None]] = []

        def finish() -> None:
            part, product, scales, read = issued.pop(0)
            new[part] = _scaled_sum(new[part], product, scales)
            if read is not None:
                nv.sync_warp()  # all lanes have read their weights
                ring.release(read, nv.lane_id() == 0)

        for _ in range(count):
            ring.wait(state)
            for unit, (number, part, _) in enumerate(self.units):
                scales, zeros = self._of_columns(state.stage, unit)
                floats = dequantized(self.weights(state.stage, unit), operands.kind, operands.dtype, zeros)
                product = nv.accumulator(HIGH, operands.rows, nv.f32)
                columns = operands.X[state.stage].cols(number * operands.width, operands.width)
                product += operand_of(floats, operands.dtype) @ columns.T
                issued.append((part, product, scales, state if unit == len(self.units) - 1 else None))
                if len(issued) > 1:
                    nv.wgmma_wait(1)
                    finish()
            state = state.next()
        nv.wgmma_wait(0)
        finish()
        return new, state


def _scaled_sum(total: nv.Accumulator, part: nv.Accumulator, scales: list[Any]) -> nv.Accumulator:
    """``total + scale * part``; ``scales``: of a thread's two rows of the accumulator."""
    (sums,), (products,) = total.registers(), part.registers()
    new = []
    for register, (x, y) in enumerate(zip(sums, products, strict=True)):
        right, _ = nv.layout.accumulator_element(0, register)
        new.append(nv.math.fma(scales[right // 8], y, x))
    return total.with_registers([new])
