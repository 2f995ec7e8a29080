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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.dequantize import BITS, dequantized, zero_pair
from nvdsl.lang.fragment import operand_of
from nvdsl.ops.warp import WARP_GROUP_SIZE

SLICE = 128
"""Elements of K in a slot of the ring."""
COLUMNS = 256
"""Of w, whose weights of a slice lie side by side; what all columns are rounded up to."""
ROW = 4
"""Elements between rows of sums in shared memory: threads that write neighbouring columns of several rows meet
different banks."""


@dataclass(frozen=True)
class QuantizedConfig:
    """``rows``: of ``x`` in a tile, a multiple of 8 up to 128. ``warpgroups``: consumers, 64 columns each. ``stages``:
    slots of the ring. ``split``: blocks of a cluster, each with a part of K. ``blocks_per_sm``: that share an SM."""

    rows: int
    warpgroups: int = 4
    stages: int = 4
    split: int = 1
    blocks_per_sm: int = 1

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
    def at_once(self) -> int:
        """Elements of K that are floats at the same time, 4 of them in a register of a thread."""
        return 64 if self.rows + 64 > self.registers[1] else SLICE

    @property
    def cols(self) -> int:
        return 64 * self.warpgroups

    def smem_bytes(self, bits: int, group: int, scale_bytes: int, zeros: bool) -> int:
        """Shared memory of a block."""
        scales = self.cols * max(1, SLICE // group) * scale_bytes * (1 + zeros)
        slot = self.cols * SLICE * bits // 8 + self.rows * SLICE * 2 + scales
        return self.stages * (slot + 2 * arch.MBARRIER_BYTES) + self.rows * (self.cols + ROW) * 4


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
    steps = nv.cdiv(nv.cdiv(x.shape[1], SLICE), config.split)
    operands = Operands(x, weights, [scales, more[0]] if zeros else [scales], kind, group, config)

    @nv.kernel(
        grid=(config.split * nv.cdiv(N, config.cols), nv.cdiv(M, config.rows)), block=config.threads,
        cluster=config.split, blocks_per_sm=config.blocks_per_sm,
    )  # fmt: skip
    def kernel() -> None:
        rank = nv.cluster_rank() if config.split > 1 else 0
        row0, col0 = nv.block_id.y * config.rows, nv.block_id.x // config.split * config.cols
        operands.allocate()
        sums = nv.smem((config.rows, config.cols + ROW), nv.f32)
        ring = nv.Ring(config.stages, bytes=operands.bytes, consumers=4 * config.warpgroups)

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
            total = nv.accumulator(64, config.rows, nv.f32)
            for _ in nv.range(steps, unroll=False):
                ring.wait(state)
                for part, of_rows in operands.sums_of_groups(state.stage, consumer):
                    total = _scaled_sum(total, part, of_rows)
                nv.sync_warp()  # all lanes have read their weights
                ring.release(state, nv.lane_id() == 0)
                state = state.next()
            (values,) = total.registers()
            for register, value in enumerate(values):
                right, down = nv.layout.accumulator_element(thread, register)
                sums[down, consumer * 64 + right] = value

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


class Operands:
    """A slice of x, of the weights of a tile's columns, and of their scales (and zero points) in each slot of a ring.
    Made in the host function; `allocate` is called in the kernel."""

    def __init__(
        self,
        x: nv.Array,
        weights: nv.Array,
        tables: list[nv.Array],
        kind: str,
        group: int,
        config: QuantizedConfig,
    ) -> None:
        self.weights, self.tables, self.kind, self.group, self.config = weights, tables, kind, group, config
        self.dtype, self.slices = x.dtype, nv.cdiv(x.shape[1], SLICE)
        self.swizzle = min(2 * group, 128)  # the bytes of a panel: a group is made of whole ones
        self.map = nv.TMA(x, tile=(config.rows, SLICE), swizzle=self.swizzle)
        self.words = SLICE * BITS[kind] // 64  # of a thread
        self.each = config.warpgroups * WARP_GROUP_SIZE * self.words
        self.groups = max(1, SLICE // group)  # of a slice
        scales = self.groups * config.cols * sum(table.dtype.bytes for table in tables)
        self.bytes = config.rows * SLICE * 2 + 4 * self.each + scales

    def allocate(self) -> None:
        config = self.config
        self.X = nv.smem((config.stages, config.rows, SLICE), self.dtype, swizzle=self.swizzle)
        self.W = nv.smem(config.stages * self.each, nv.i32)
        self.S = [nv.smem(config.stages * self.groups * config.cols, table.dtype) for table in self.tables]

    def load(self, stage: Any, full: nv.Mbarrier, row: Any, col: Any, k: Any) -> None:
        """Load slice ``k`` of the tile at (``row``, ``col``). By one thread."""
        # Beyond the end of K, x is zero, and the weights of any slice do.
        inside = nv.min(k, self.slices - 1)
        self.map.load(self.X[stage], full, (row, k * SLICE))
        of_64 = WARP_GROUP_SIZE * self.words
        place = col // COLUMNS, inside * (COLUMNS // 64 * of_64) + col % COLUMNS // 64 * of_64
        start = stage * self.each
        slot = self.W[start : start + self.each]
        nv.bulk_load(slot, self.weights.view(place, (1, self.each)), 4 * self.each, full)
        cols = self.config.cols
        for table, slots in zip(self.tables, self.S, strict=True):
            for number in nv.range(self.groups, unroll=False):
                place = nv.min(inside * SLICE // self.group + number, table.shape[0] - 1), col
                start = (stage * self.groups + number) * cols
                slot = slots[start : start + cols]
                nv.bulk_load(slot, table.view(place, (1, cols)), cols * table.dtype.bytes, full)

    def sums_of_groups(self, stage: Any, consumer: Any) -> Iterator[tuple[nv.Accumulator, list[Any]]]:
        """The products of each group in a slot, and the scales of this thread's two rows of them. By a warpgroup."""
        config, thread = self.config, nv.warpgroup_thread()
        top, _ = nv.layout.accumulator_element(thread, 0)
        width = SLICE // self.groups
        start = (stage * config.warpgroups + consumer) * (WARP_GROUP_SIZE * self.words)
        for number in range(self.groups):
            first = (stage * self.groups + number) * config.cols + consumer * 64 + top
            of_rows = [[nv.f32(slots[first + i]) for i in (0, 8)] for slots in self.S]
            zeros = of_rows[1] if len(of_rows) > 1 else [nv.f32(2.0 ** (BITS[self.kind] - 1))] * 2
            subtracted = [] if self.kind == "e4m3" else [zero_pair(self.kind, self.dtype, zero) for zero in zeros]
            part = nv.accumulator(64, config.rows, nv.f32)
            count = min(width, config.at_once)
            for left in range(number * width, (number + 1) * width, count):
                packed = _packed(self.W, start, left * self.words // SLICE, count * self.words // SLICE)
                floats = operand_of(dequantized(packed, self.kind, self.dtype, subtracted), self.dtype)
                part += floats @ self.X[stage].cols(left, count).T
                nv.wgmma_wait(0)
            yield part, of_rows[0]


def _packed(W: nv.Array, start: Any, first: int, count: int) -> list[Any]:
    """Words ``first`` to ``first + count - 1`` of this thread: vectors of 16 bytes, thread beside thread."""
    thread = nv.warpgroup_thread()
    found: list[Any] = []
    for i in range(first, first + count):
        if i == first or i % 4 == 0:
            found += list(W.vector(start + i // 4 * 512 + thread * 4 + i % 4, min(4 - i % 4, count)))
    return found[:count]


def _scaled_sum(total: nv.Accumulator, part: nv.Accumulator, scales: list[Any]) -> nv.Accumulator:
    """``total + scale * part``; ``scales``: of a thread's two rows of the accumulator."""
    (sums,), (products,) = total.registers(), part.registers()
    new = []
    for register, (x, y) in enumerate(zip(sums, products, strict=True)):
        right, _ = nv.layout.accumulator_element(0, register)
        new.append(nv.math.fma(scales[right // 8], y, x))
    return total.with_registers([new])
