"""Rows that blocks tell each other step by step: each writes some columns of them and reads them all.

A group of blocks shares 64 rows. In each step a block's warpgroup writes its columns of the rows to global memory, and
raises the group's counter. One thread of each block waits until all blocks have done so, and brings the rows into the
block's ring, a slice of columns after the other.

There are two buffers, used in turn. Who writes the rows of step t + 1 has read those of step t, which every block wrote
after it had read those of step t - 1: so nobody reads the buffer any more that is written now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.lang.axis import column_axis, row_axis
from nvdsl.lang.distributed import Where, made
from nvdsl.ops import memory
from nvdsl.ops.atomics import atomic
from nvdsl.ops.pointer import GLOBAL, element_address

ROWS = 64
"""Of a group: what one warpgroup multiplies."""

APART = 32
"""Counters lie in lines of their own: each is raised and looked at by many blocks."""


class Exchange:
    """Of ``rows`` rows of ``kinds * cols`` columns, each group of which is written by ``writers`` warpgroups. Made in
    the host function. A block has ``consumers`` groups, with ``stages`` slots of ``slice_cols`` columns each."""

    def __init__(
        self, rows: nv.Int, kinds: int, cols: int, dtype: nv.DType, *, writers: int, consumers: int, slice_cols: int,
        stages: int,
    ) -> None:  # fmt: skip
        self.dtype, self.writers, self.consumers = dtype, writers, consumers
        self.slice_cols, self.stages = slice_cols, stages
        self.of_kind = nv.cdiv(cols, slice_cols)
        self.slices = kinds * self.of_kind
        self.buffers = nv.empty((2, kinds, rows, nv.cdiv(cols, 8) * 8), dtype)[:, :, :, :cols]
        self.counters = nv.zeros(nv.cdiv(rows, ROWS * consumers) * consumers * APART, nv.i32)
        self.map = nv.TMA(self.buffers, tile=(1, 1, ROWS, slice_cols), swizzle=128)

    def allocate(self) -> None:
        """Make the slots and their ring; in the kernel. A barrier of the block has to follow."""
        slots = self.stages * self.consumers
        self.slots = nv.smem((slots, ROWS, self.slice_cols), self.dtype, swizzle=128)
        self.ring = nv.Ring(slots, bytes=self.slots.bytes, consumers=4, sync=False)

    def _slot(self, me: nv.Int, state: nv.PipelineState) -> nv.PipelineState:
        """A position in the ring of consumer ``me`` as one among all slots."""
        return nv.PipelineState(self.ring.stages, me * self.stages + state.stage, state.phase)

    def producer_state(self) -> nv.PipelineState:
        return nv.PipelineState(self.stages, 0, 1)

    def consumer_state(self) -> nv.PipelineState:
        return nv.PipelineState(self.stages, 0, 0)

    def publish(self, parts: Sequence[Any], step: Any, group: Any, col: Any, barrier: Any) -> None:
        """Write ``parts``, the columns from ``col`` on of each kind, of the rows of ``step``, and count. By one
        warpgroup; ``barrier``: a named one of its own."""
        for kind, part in enumerate(parts):
            part.to(self.dtype).store(self.buffers, (step & 1, kind, group * ROWS, col), clip=True)
        nv.named_barrier_sync(barrier, 128)
        if nv.warpgroup_thread() == 0:
            place = element_address(self.counters, (group * APART,), (1,), GLOBAL)
            atomic("add", place, 1, nv.i32, order="release")

    def load(self, me: Any, state: nv.PipelineState, step: Any, group: Any) -> nv.PipelineState:
        """Wait for all columns of the rows of ``step``, and bring them into the ring of consumer ``me``, slice by
        slice. By one thread. Returns the ring's next position."""
        while memory.load_acquire(self.counters, group * APART) < (step + 1) * self.writers:
            pass
        nv.fence_proxy_async("global")
        for k in nv.range(self.slices, unroll=False):
            slot = self._slot(me, state)
            at = (step & 1, k // self.of_kind, group * ROWS, k % self.of_kind * self.slice_cols)
            self.map.load(self.slots[slot.stage], self.ring.acquire(slot), at)
            state = state.next()
        return state

    def multiply(
        self, me: Any, state: nv.PipelineState, weights: nv.TileStack, cols: int, meanwhile: Callable[[], None]
    ) -> tuple[nv.Accumulator, nv.PipelineState]:
        """The product of a group's rows with ``weights``: a tile of ``cols`` rows for each slice, K contiguous. By one
        warpgroup. ``meanwhile``: what it does while the first slice is multiplied. Returns the sums, which are there,
        and the ring's next position."""
        slot = self._slot(me, state)
        self.ring.wait(slot)
        acc = nv.accumulator(ROWS, cols)
        acc += self.slots[slot.stage] @ weights[0].T
        meanwhile()
        last, state = state, state.next()
        for k in nv.range(1, self.slices, unroll=False) if weights.shape[0] > 1 else ():
            slot = self._slot(me, state)
            self.ring.wait(slot)
            acc += self.slots[slot.stage] @ weights[k].T
            nv.wgmma_wait(1)
            self._release(me, last)
            last, state = state, state.next()
        nv.wgmma_wait(0)
        self._release(me, last)
        return acc, state

    def _release(self, me: Any, state: nv.PipelineState) -> None:
        """This warp has read the slot."""
        self.ring.release(self._slot(me, state), nv.lane_id() == 0)


def keep(weight: nv.Array, units: int, first: nv.Int, slice_cols: int, wide: int) -> nv.TileStack:
    """Bring ``units`` units' rows of ``weight``, [kinds, units, columns], into shared memory, from ``first`` on: a tile
    for each slice of columns, in it one kind after the other, zeros behind the ends. By all threads, ``wide`` elements
    at a time; a barrier of the block has to follow."""
    kinds, hidden, columns = weight.shape
    slices, each = nv.cdiv(columns, slice_cols), slice_cols // wide
    tiles = nv.smem((slices, kinds * units, slice_cols), weight.dtype, swizzle=128)
    for k in nv.range(slices, unroll=False):
        for kind in range(kinds):
            for i in nv.range(nv.thread_id.x, units * each, nv.block_dim.x, unroll=4):
                unit, col = i // each, i % each * wide
                found = nv.vector([0.0] * wide, weight.dtype)
                if (first + unit < hidden) & (k * slice_cols + col < columns):
                    found = weight.vector((kind, first + unit, k * slice_cols + col), wide)
                tiles[k].store_vector(found, (kind * units + unit, col))
    nv.fence_proxy_async()
    return tiles


def keep_columns(weight: nv.Array, units: int, first: nv.Int, slice_cols: int, wide: int) -> nv.TileStack:
    """The same of ``units`` columns of ``weight``, [kinds, units, columns]: a tile for each slice of a kind's units,
    the columns as rows."""
    kinds, hidden, columns = weight.shape
    slices, across = nv.cdiv(hidden, slice_cols), units // wide
    tiles = nv.smem((kinds * slices, units, slice_cols), weight.dtype, swizzle=128)
    for k in nv.range(kinds * slices, unroll=False):
        for i in nv.range(nv.thread_id.x, slice_cols * across, nv.block_dim.x, unroll=4):
            unit, col = k % slices * slice_cols + i // across, i % across * wide
            found = nv.vector([0.0] * wide, weight.dtype)
            if (unit < hidden) & (first + col < columns):
                found = weight.vector((k // slices, unit, first + col), wide)
            for j in range(wide):
                tiles[k][col + j, i // across] = found[j]
    nv.fence_proxy_async()
    return tiles


def part_of(x: nv.Array, *place: Any, units: int, rows: int = ROWS) -> Any:
    """``rows`` rows and ``units`` columns of the last two axes of ``x``, from ``place`` on, as a fragment. Behind the
    ends it repeats what is there, for who does not store it: nothing is compared but indices. Rows start at even
    elements where they have an even number."""
    *before, row, col = place
    last_row, cols = x.shape[-2] - 1, x.shape[-1]
    pair = 2 if cols % 2 == 0 else 1
    down, along = row_axis(rows), column_axis(units)
    grid = []
    for r in down.offsets:
        at = nv.min(row + down.first() + r, last_row)
        line: list[nv.Value] = []
        for c in along.offsets[::pair]:
            found = x.vector((*before, at, nv.min(col + along.first() + c, cols - pair)), pair)
            line += [found[i] for i in range(pair)]
        grid.append(line)
    return made(Where((down, along), False), x.dtype, grid)
