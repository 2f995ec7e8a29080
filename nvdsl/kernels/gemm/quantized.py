"""GEMM of a few rows of f16 or bf16 and weights of 4 or 8 bits, which become 16-bit floats on the way to wgmma.

wgmma takes A from registers, and B from shared memory. So the transpose is computed, ``out.T = w.T @ x.T``: weights are
A, 64 columns of ``w`` for each consumer warpgroup. They are packed in the order of the registers: a thread reads its
own, 16 bytes at a time, and computes the floats (`blocks.dequantize`), which nobody writes anywhere.

    producer     x (rows x 128), weights (128 x columns), scales: load | load | ...
    consumer 0   slice 0: weights -> registers -> floats | multiply | total += scale * sums
    consumer 1   slice 0, other columns, or slice 1                 | multiply | ...
    consumer 2   ...                                                           | multiply

Integers are exact in 16 bits. The sums of a group along K are kept apart and added with the group's scale, in f32. All
of that is a long chain of instructions in each warpgroup, so there are up to four, which multiply in turn.

A team of warpgroups has the columns of a tile, and teams take slices in turn. Few rows are no work for all SMs unless
they share K: the blocks of a cluster sum a part each. The sums of teams and blocks are added through shared memory, in
a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.dequantize import dequantized
from nvdsl.kernels.gemm.quantized_operands import (
    BESIDE_SLOTS,
    COLUMNS_OF_PART,
    SLICE,
    SPLITS,
    THREADS_OF_PART,
    Operands,
    OwnRing,
    Slot,
)
from nvdsl.kernels.gemm.quantized_sums import TileSums
from nvdsl.lang.fragment import operand_of

HIGH = 64
"""Columns of w that a wgmma multiplies: rows of A."""
MOST_WARPGROUPS, WARPS = 4, 4
"""Warpgroups that multiply, and warps of each."""
MOST_UNROLLED = 4
"""Slots of a team whose loop is unrolled."""
FLOATS, SPARE = 32, 16
"""Registers of 64 columns of a slice; and of a thread beside these and two sums of each row."""


@dataclass(frozen=True)
class QuantizedConfig:
    """``rows``: of ``x`` in a tile, a multiple of 8 up to 128. ``cols``: its columns, 64, 128 or 256; a consumer
    warpgroup has 64. ``teams``: of so many warpgroups, which take slices of K in turn. ``stages``: slots of the ring.
    ``split``: blocks of a cluster, each with a part of K."""

    rows: int
    cols: int = 256
    teams: int = 1
    stages: int = 4
    split: int = 1

    @property
    def parts(self) -> int:
        """Warpgroups of a team."""
        return self.cols // HIGH

    @property
    def warpgroups(self) -> int:
        """Consumers, of all teams."""
        return self.teams * self.parts

    @property
    def threads(self) -> int:
        """Consumers, and a warpgroup of which one thread loads."""
        return arch.WARPGROUP_SIZE * (self.warpgroups + 1)

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread that loads, and of one that multiplies: what that leaves."""
        all = arch.launch_registers(self.threads) * (1 + self.warpgroups)
        loader = 32 if self.warpgroups == MOST_WARPGROUPS and self.rows >= HIGH else 56
        return loader, min((all - loader) // self.warpgroups // 8 * 8, 240)

    @property
    def ahead(self) -> bool:
        """Whether the first slice is loaded before the block's threads meet. With four warpgroups, which have few
        registers, it took up to 4 % longer on an H200."""
        return self.warpgroups < MOST_WARPGROUPS

    @property
    def unrolled(self) -> bool:
        """Whether the loop over a team's slots is unrolled, so that most of what finds them is known. 40 rows and more
        of four warpgroups spilled then."""
        return self.rows <= HIGH // 2 and self.stages <= MOST_UNROLLED * self.teams

    @property
    def in_flight(self) -> int:
        """Products of groups, smaller than a slice, that a thread has registers for beside the tile's sums."""
        of_each = self.rows // 2 + FLOATS // 2
        return 2 if self.rows // 2 + 2 * of_each + SPARE <= self.registers[1] else 1

    def smem_bytes(self, bits: int, group: int, scale_bytes: int, zeros: bool) -> int:
        """Shared memory of a block."""
        slot = Operands.slot_bytes(self.rows, self.cols, bits, group, scale_bytes * (1 + zeros))
        sums = TileSums.bytes(self.rows, self.cols, self.teams)
        turns, place = MOST_WARPGROUPS * arch.MBARRIER_BYTES, 16
        return self.stages * (slot + 2 * arch.MBARRIER_BYTES) + BESIDE_SLOTS + turns + place + sums

    def problems(self) -> list[str]:
        """What is wrong with it."""
        checks = (
            (self.rows in range(8, 129, 8), f"{self.rows} rows: a multiple of 8 up to 128"),
            (self.cols in (64, 128, 256), f"{self.cols} columns: 64, 128 or 256, as columns are packed by 256"),
            (
                self.teams >= 1 and self.warpgroups <= MOST_WARPGROUPS,
                f"{self.teams} teams: {self.warpgroups} warpgroups, of {MOST_WARPGROUPS} at most",
            ),
            (self.split in SPLITS, f"split {self.split}: 1, 2, 4 or 8"),
            (
                self.teams >= 1 and self.stages >= 2 and self.stages % self.teams == 0,
                f"{self.stages} stages: 2 or more, a multiple of {self.teams} teams, so that a slot is always the same "
                "team's: who waits for a slot's next round has waited for the one before",
            ),
        )
        found = [said for holds, said in checks if not holds]
        if not found and self.rows + FLOATS + SPARE > self.registers[1]:
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
    vectors: bool = False,
) -> None:
    """out[M, N] = activation(x[M, K] @ w[K, N] + bias).

    ``weights``: i32, as `nvdsl.QuantizedWeight` packs them: a row for each 256 columns of w. ``scales``: (groups,
    columns rounded up); ``more``: zero points like them, and a bias of (N,), where ``zeros`` and ``bias`` say so.
    ``vectors``: whether rows of ``out`` are whole 16 bytes.
    """
    M, N = out.shape
    steps = nv.cdiv(nv.cdiv(x.shape[1], SLICE), config.split * config.teams) * config.teams
    tables = [scales, more[0]] if zeros else [scales]
    operands = Operands(x, weights, tables, kind, group, config.rows, config.cols, config.stages,
                        once=nv.cdiv(M, config.rows) == 1)  # fmt: skip

    @nv.kernel(
        grid=(config.split * nv.cdiv(N, config.cols), nv.cdiv(M, config.rows)), block=config.threads,
        cluster=config.split, programmatic=True,
    )  # fmt: skip
    def kernel() -> None:
        rank = nv.cluster_rank() if config.split > 1 else 0
        row0, col0 = nv.block_id.y * config.rows, nv.block_id.x // config.split * config.cols
        operands.allocate()
        place = nv.smem(2, nv.i32)  # kept there, as registers are scarce meanwhile
        if nv.thread_id.x == 0:
            place[0], place[1] = row0, col0
        sums = TileSums(out, config.rows, config.cols, config.teams, config.split,
                        bias=more[-1] if bias else None, activation=activation, vectors=vectors)  # fmt: skip
        turns = Turns(config.warpgroups if operands.groups == 1 else 1)
        ring = OwnRing(config.stages, bytes=operands.bytes, consumers=WARPS * config.parts)
        loader = nv.warp_id() == WARPS * config.warpgroups
        if loader & nv.elect():
            ring.begin()

        nv.griddep_wait()
        nv.griddep_launch_dependents()
        if config.ahead:
            if loader & nv.elect():  # before the threads meet
                operands.load(0, ring.acquire(ring.producer_state(), new=True), row0, col0, rank * steps)
        nv.sync_threads()
        if nv.warpgroup_id() == config.warpgroups:
            nv.setmaxnreg_dec(config.registers[0])
            if loader & nv.elect():
                state = ring.producer_state().advance(int(config.ahead))
                for step in nv.range(int(config.ahead), steps, unroll=False):
                    operands.load(state.stage, ring.acquire(state), row0, col0, rank * steps + step)
                    state = state.next()
        else:
            nv.setmaxnreg_inc(config.registers[1])
            consumer = nv.warpgroup_id()
            team, left = consumer // config.parts, consumer % config.parts * HIGH
            total, nibbles = nv.accumulator(HIGH, config.rows, nv.f32), operands.nibbles[0]
            turn = turns.begin(consumer)

            def add_slice(total: Any, turn: Any, state: nv.PipelineState, slot: Slot) -> tuple[Any, Any]:
                ring.wait(state)
                if operands.groups > 1:
                    total = add_groups(total, operands, slot, left, nibbles, config.in_flight)
                else:
                    floats, scales = floats_of(operands, slot, 0, left, nibbles)
                    early = SLICE // 2 if config.rows >= HIGH else 0
                    turn = turns.wait(consumer, turn)
                    # The next one takes as long to wake as the other half to multiply; of few rows, as all.
                    product, slice = nv.accumulator(HIGH, config.rows, nv.f32), operands.X[slot.number]
                    if early:
                        product += operand_of(floats[: early // 4], x.dtype) @ slice.cols(0, early).T
                    turns.pass_on(consumer)
                    product += operand_of(floats[early // 4 :], x.dtype) @ slice.cols(early, SLICE - early).T
                    nv.wgmma_wait(0)
                    total = scaled_sum(total, product, scales)
                nv.sync_warp()  # all lanes have read their weights
                ring.release(state, nv.lane_id() == 0)
                return total, turn

            state, count = ring.consumer_state().advance(team), steps // config.teams
            if config.unrolled:
                slots, phase = config.stages // config.teams, nv.i32(0)
                for _ in nv.range(count // slots, unroll=False):
                    for first in range(0, config.stages, config.teams):
                        slot = Slot(first, team if config.teams > 1 else 0)
                        state = nv.PipelineState(config.stages, slot.number, phase)
                        total, turn = add_slice(total, turn, state, slot)
                    phase = phase ^ 1
                count, state = count % slots, nv.PipelineState(config.stages, team, phase)
            for _ in nv.range(count, unroll=False):
                total, turn = add_slice(total, turn, state, Slot(0, state.stage))
                state = state.advance(config.teams)
            (values,) = total.registers()
            for register, value in enumerate(values):
                right, down = nv.layout.accumulator_element(nv.warpgroup_thread(), register)
                sums.memory[team * config.rows + down, left + right] = value

        sums.store(place[0], place[1], rank, config.threads)

    kernel()


def add_groups(
    total: nv.Accumulator, operands: Operands, slot: Slot, left: Any, nibbles: Any, most: int
) -> nv.Accumulator:
    """``total`` and the products of a slot's groups, each with its scales: the weights of a group become floats while
    the one before is multiplied, with ``most`` in flight."""
    pending: list[tuple[nv.Accumulator, list[Any]]] = []
    for number in range(operands.groups):
        floats, scales = floats_of(operands, slot, number, left, nibbles)
        product = nv.accumulator(HIGH, operands.rows, nv.f32)
        x = operands.X[slot.number].cols(number * operands.width, operands.width)
        product += operand_of(floats, operands.dtype) @ x.T
        pending.append((product, scales))
        if len(pending) == most:
            nv.wgmma_wait(most - 1)
            total = scaled_sum(total, *pending.pop(0))
    nv.wgmma_wait(0)
    for each in pending:
        total = scaled_sum(total, *each)
    return total


class Turns:
    """Whose turn it is to multiply, among ``count`` warpgroups: so the others convert meanwhile. All threads make it.

    As `nvdsl.Turns`, but of mbarriers: a wait for one is a loop, over which ptxas moves no conversions. Behind a named
    barrier it does, and there the tensor cores wait for them.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        if count > 1:
            self.barriers = nv.Mbarriers(count, arrivals=WARPS, sync=False)

    def begin(self, me: Any) -> nv.PipelineState:
        """Give the first turn to 0. Returns what `wait` is told first."""
        if self.count > 1:
            self.barriers[0].arrive(predicate=(me == self.count - 1) & (nv.lane_id() == 0))
        return nv.PipelineState(1)

    def wait(self, me: Any, turn: nv.PipelineState) -> nv.PipelineState:
        """Wait for one's turn. Returns the next one."""
        if self.count > 1:
            self.barriers[me].wait(turn.phase)
        return turn.next()

    def pass_on(self, me: Any) -> None:
        """It is the next one's turn."""
        if self.count > 1:
            following = nv.select(me == self.count - 1, 0, me + 1)
            self.barriers[following].arrive(predicate=nv.lane_id() == 0)


def floats_of(operands: Operands, slot: Slot, number: int, left: Any, nibbles: Any) -> tuple[list[Any], list[Any]]:
    """A slot's group ``number`` of the 64 columns from ``left`` on, as floats; and its scales."""
    thread = nv.warpgroup_thread()
    top, _ = nv.layout.accumulator_element(thread, 0)
    scales, zeros = operands.of_columns(slot, number, left + top)
    part, first = left // COLUMNS_OF_PART + thread // THREADS_OF_PART, number * operands.width
    words = operands.words_of(slot, part, thread % THREADS_OF_PART, first, operands.width, nibbles)
    return dequantized(words, operands.kind, operands.dtype, zeros), scales


def scaled_sum(total: nv.Accumulator, part: nv.Accumulator, scales: list[Any]) -> nv.Accumulator:
    """``total + scale * part``; ``scales``: of a thread's two rows of the accumulator."""
    (sums,), (products,) = total.registers(), part.registers()
    new = []
    for register, (x, y) in enumerate(zip(sums, products, strict=True)):
        right, _ = nv.layout.accumulator_element(0, register)
        new.append(nv.math.fma(scales[right // 8], y, x))
    return total.with_registers([new])
