"""Where the registers of a fragment lie, one axis at a time.

A fragment's layout takes (thread, register) to (row, column). Threads and registers add up independently, and each
register's row does not depend on its column. So an axis is known by two parts: the coordinate that a thread has, and
what each of its registers adds to it. Two fragments whose rows have equal axes have the same rows in the same threads,
whatever their columns are: a vector with one value for each row fits both.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.layout import Layout, wgmma_a, wgmma_accumulator
from nvdsl.layout.strides import E
from nvdsl.ops.warp import WARP_GROUP_SIZE, WARP_SIZE, lane_id, warpgroup_thread

if TYPE_CHECKING:
    from nvdsl.values.traced import Value

ROWS_OF_A_BLOCK = 64
"""Rows of one wgmma."""


@dataclass(frozen=True)
class Axis:
    """``extent`` coordinates, spread over threads (``lanes``: thread -> coordinate of its first register) and over the
    registers of each (``offsets``, ascending)."""

    extent: int
    lanes: Layout
    offsets: tuple[int, ...]

    @property
    def threads(self) -> int:
        """How many threads hold the fragment: a warp's, or a warpgroup's."""
        return int(self.lanes.size)

    def first(self) -> Value:
        """The coordinate of this thread's first register, i32."""
        return self.lanes(warpgroup_thread() if self.threads == WARP_GROUP_SIZE else lane_id())

    def strides(self) -> list[tuple[int, int]]:
        """(thread, coordinate) of each bit of the thread's number: how far it moves along the axis."""
        found, thread = [], 1
        for size, stride in self.lanes.leaves():
            count = 1
            while count < size:
                found.append((thread * count, stride * count))
                count *= 2
            thread *= size
        return found

    def sharing(self) -> list[int]:
        """The bits of a thread's number that do not change its coordinate: who differs in them has the same ones."""
        return [thread for thread, stride in self.strides() if stride == 0]

    def taken(self, part: slice) -> tuple[Axis, tuple[int, ...]] | None:
        """The axis of a slice, and which registers are in it. None where a register is in it in some threads only."""
        first, last, step = part.indices(self.extent)
        inside = range(first, last, step)
        lanes = sorted({self.lanes(thread) for thread in range(self.threads)})
        kept = []
        for i, offset in enumerate(self.offsets):
            count = sum(offset + lane in inside for lane in lanes)
            if count not in (0, len(lanes)):
                return None
            if count:
                kept.append(i)
        strides = [stride for _, stride in self.lanes.leaves()]
        if step < 1 or not kept or any(stride % step for stride in strides):
            return None
        shape = tuple(size for size, _ in self.lanes.leaves())
        lanes_now = Layout(shape, tuple(stride // step for stride in strides))
        return Axis(len(inside), lanes_now, tuple((self.offsets[i] - first) // step for i in kept)), tuple(kept)


@dataclass(frozen=True)
class Places:
    """The axes of a fragment, and ``of_register``: each register's (row, column), as positions in their offsets."""

    rows: Axis
    cols: Axis
    of_register: tuple[tuple[int, int], ...]


@cache
def places(layout: Layout, shape: tuple[int, int]) -> Places:
    """Take the layout of a fragment, (thread, value) -> (row, column), apart into its axes."""
    leaves = layout[0].leaves()
    sizes = tuple(size for size, _ in leaves)
    lanes = [Layout(sizes, tuple(stride[k] for _, stride in leaves)) for k in (0, 1)]
    values = [layout(0, value) for value in range(layout[1].size)]
    offsets = [tuple(sorted({place[k] for place in values})) for k in (0, 1)]
    assert len(offsets[0]) * len(offsets[1]) == len(values), layout
    rows, cols = (Axis(shape[k], lanes[k], offsets[k]) for k in (0, 1))
    at = {place: i for i, place in enumerate(offsets[0])}, {place: i for i, place in enumerate(offsets[1])}
    return Places(rows, cols, tuple((at[0][row], at[1][col]) for row, col in values))


@cache
def of_accumulator(m: int, n: int) -> Places:
    """The places of an ``m x n`` accumulator: 64 rows after the other, in the order of the registers."""
    one = wgmma_accumulator(n)
    blocks = m // ROWS_OF_A_BLOCK
    values, strides = (*one.shape[1], blocks), (*one.stride[1], E(ROWS_OF_A_BLOCK, 0))
    return places(Layout((one.shape[0], values), (one.stride[0], strides)), (m, n))


@cache
def of_operand(m: int, k: int, itemsize: int) -> Places:
    """The places of an ``m x k`` A operand: by element of a register, register, step of 32 bytes, block of 64 rows."""
    one = wgmma_a(itemsize)
    per_step = 32 // itemsize
    values = (*one.shape[1], k // per_step, m // ROWS_OF_A_BLOCK)
    strides = (*one.stride[1], E(0, per_step), E(ROWS_OF_A_BLOCK, 0))
    return places(Layout((one.shape[0], values), (one.stride[0], strides)), (m, k))


def row_axis(m: int) -> Axis:
    """The rows of an accumulator of ``m`` rows. Raises TraceError for another number than 64, 128, ..."""
    if not isinstance(m, int) or m <= 0 or m % ROWS_OF_A_BLOCK:
        raise trace_error(
            f"a vector of {m} rows",
            rule="a warpgroup's fragment has 64, 128, ... rows (PTX ISA, register fragments of wgmma.mma_async)",
            fix="take as many rows as the accumulator has",
        )
    return of_accumulator(m, 8).rows


def column_axis(n: int) -> Axis:
    """The columns of an accumulator of ``n`` columns. Raises TraceError for another number than 8, 16, ..., 256."""
    if not isinstance(n, int) or not 8 <= n <= 256 or n % 8:
        raise trace_error(
            f"a vector of {n} columns",
            rule="a warpgroup's fragment has 8, 16, ..., 256 columns (PTX ISA, register fragments of wgmma.mma_async)",
            fix="take as many columns as the accumulator has",
        )
    return of_accumulator(ROWS_OF_A_BLOCK, n).cols


def in_a_warp(bits: list[int]) -> bool:
    """Whether threads that differ in these bits are in one warp."""
    return all(bit < WARP_SIZE for bit in bits)
