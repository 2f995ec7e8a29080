"""The loop over K: what a producer's thread and a consumer's warpgroup do for one tile of the result."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.blocks.tma_operand import TmaOperand

TURNS, CLEARED = 3, 5
"""Named barriers: two for `nv.Turns` of two consumers, and one; 1 and 2 are the epilogue's."""
CLEARERS = arch.WARPGROUP_SIZE - arch.WARP_SIZE
"""Threads that clear: of the producer warpgroup, whose first warp loads."""


class Mainloop:
    """``steps`` slices of K through a ring of slots, made in the kernel by all of its threads.

    ``stages``: slots. ``consumers``: warpgroups that multiply, each ``rows x cols``; ``readers`` of them read the same
    slot. ``in_flight``: groups of wgmma left in flight while the next slot is waited for, 0 or 1. ``leaves_gaps``:
    whether some of a slot is never written by a load. ``one_loop``: whether the first slice is summed as the others
    are. That is less to compile, and takes a few registers.

    The blocks of a cluster that share a tile of B (a column of blocks) or of A (a row) load a part of it each and
    send it to all. So a slot is free when the consumers of all blocks of its row and its column have released it. Ranks
    count down the columns.
    """

    fillers = 1
    """Arrivals that fill a slot, beside the bytes that come."""
    first: tuple[Any, Any, Any]
    """Batch, row and column of the block's first tile, where its producer begins with that."""

    def __init__(
        self, a: TmaOperand, b: TmaOperand, steps: nv.Int, *, stages: int, rows: int, cols: int, consumers: int,
        readers: int, in_flight: int = 1, leaves_gaps: nv.Bool = False, one_loop: bool = True,
    ) -> None:  # fmt: skip
        self.a, self.b, self.steps = a, b, steps
        self.started, self.leaves_gaps, self.one_loop = 0, leaves_gaps, one_loop
        self.stages, self.rows, self.cols, self.in_flight = stages, rows, cols, in_flight
        self.consumers, self.readers = consumers, readers
        a.allocate(stages)
        b.allocate(stages)
        self.writers = a.parts + b.parts - 1  # blocks that write into a slot
        self.rank = nv.cluster_rank() if self.writers > 1 else 0
        self._row: nv.Int = self.rank % b.parts if b.parts > 1 else 0  # within the cluster
        self._col: nv.Int = self.rank // b.parts if a.parts > 1 else 0
        in_row, in_col = sum(1 << i * b.parts for i in range(a.parts)), (1 << b.parts) - 1
        self._of_a: dict[str, Any] = {"part": self._col, "mask": in_row << self._row}
        self._of_b: dict[str, Any] = {"part": self._row, "mask": in_col << self._col * b.parts}
        warps = 4 * readers
        slot = a.stored * a.each + b.stored * b.each
        self.ring = nv.Ring(
            stages, bytes=slot, consumers=warps * self.writers, producers=self.fillers, sync=False
        )

    def clear(self) -> None:
        """Zero what no load writes. By the producer warpgroup's warps but the first, which loads meanwhile: so none of
        this lies on the consumers' way. A launch waits for the code that it comes by, too."""
        if self.leaves_gaps:
            for operand in (self.a, self.b):
                operand.clear(self.stages, nv.warpgroup_thread() - arch.WARP_SIZE, CLEARERS)
            self._meet_cleared()

    def wait_cleared(self) -> None:
        """Wait until all is zeroed that no load writes. By all consumers, before they multiply."""
        if self.leaves_gaps:
            self._meet_cleared()

    def _meet_cleared(self) -> None:
        nv.named_barrier_sync(CLEARED, 128 * self.consumers + CLEARERS)

    def start(self, at: tuple[Any, Any, Any], first: Any, bytes: Any) -> None:
        """Load slice ``first`` of a block's first tile, which is ``at`` a batch, a row and a column, before its threads
        have met: the slots are empty, and the thread that loads has initialized their barriers itself. By all threads.
        `load` is told to ``skip`` it, ``started``. A block of a cluster loads all of its tiles itself yet: the others'
        barriers may not be there.

        One slice, as a warp with more copies than TMA's queue holds is stuck at them: so are a barrier that it comes
        to, and its setmaxnreg, for which the consumers wait. With six slices an H200's consumers began 2,500 clocks
        after the barrier, when all of these were there."""
        self.started = 1
        if nv.thread_id.x == 0:
            batch, row, col = at
            self._load_slice(self.ring.producer_state(), batch, row, col, first * self.a.k, bytes, False)

    def load(
        self,
        state: nv.PipelineState,
        batch: Any,
        row: Any,
        col: Any,
        first: Any = 0,
        last: Any = None,
        *,
        skip: Any = 0,
        backwards: Any = 0,
    ) -> nv.PipelineState:
        """Load slices ``first`` to ``last - 1`` (default: all) of a batch's tile at (``row``, ``col``).

        By one thread. ``skip``: so many are loaded already. ``backwards``: 0, or 1: from the last slice of K to the
        first. Returns the ring's next position.
        """
        for step in nv.range(first + skip, self.steps if last is None else last, unroll=False):
            k = (step + backwards * (self.steps - 1 - 2 * step)) * self.a.k
            self._load_slice(state, batch, row, col, k, None, step >= first + self.stages)
            state = state.next()
        return state

    def drain(self, state: nv.PipelineState) -> None:
        """Wait until all slots are released, those of other blocks of the cluster too. By the thread that loads, with
        the ring's position after its last slice."""
        for _ in nv.range(self.stages, unroll=False):
            self.ring.acquire(state, expect=False)
            state = state.next()

    def _load_slice(
        self, state: nv.PipelineState, batch: Any, row: Any, col: Any, k: Any, new: Any, old: Any
    ) -> None:
        """``new``: the slice's bytes, where nothing was in the slot yet; ``old``: see `TmaOperand.count`."""
        stage = state.stage
        shared_a, shared_b = (self._of_a, self._of_b) if new is None else ({}, {})
        of_a, of_b = self.a.count(row, old), self.b.count(col, old)
        full = self.ring.acquire(state, expect=False, new=new is not None)
        full.arrive_expect_tx(self.a.bytes(of_a) + self.b.bytes(of_b) if new is None else new)
        self.a.load(stage, full, batch, row, k, of_a, **shared_a)
        self.b.load(stage, full, batch, col, k, of_b, **shared_b)

    def multiply(
        self, state: nv.PipelineState, at: tuple[Any, Any], acc: nv.Accumulator, count: Any = None
    ) -> tuple[Any, Any, Any]:
        """Issue the products of ``count`` slices (default: all; at least 1), of the part of the tile that begins ``at``
        a row and a column.

        By one warpgroup. ``acc``: a new accumulator. Returns the sums, the last slot, and the ring's next position;
        `finish` waits for the sums and releases the last slot.
        """
        # The first slice starts the sums (scale_d = 0): no registers are zeroed.
        count = self.steps if count is None else count
        if self.one_loop:
            return self._sum(state, state, at, acc.undefined(), 0, count)
        self.reach(state, at, 0)
        acc += self.product(state, *at)
        return self.go_on(state, at, acc, count)

    def go_on(
        self, last: nv.PipelineState, at: tuple[Any, Any], acc: nv.Accumulator, count: Any
    ) -> tuple[Any, Any, Any]:
        """`multiply`, of whose ``count`` slices the first one's products are issued: it is in slot ``last``."""
        return self._sum(last, last.next(), at, acc, 1, count)

    def _sum(
        self, last: nv.PipelineState, state: nv.PipelineState, at: tuple[Any, Any], acc: nv.Accumulator, begin: int,
        count: Any,
    ) -> tuple[Any, Any, Any]:  # fmt: skip
        # LLVM would unroll a short loop: more code, and more registers than there are.
        for number in nv.range(begin, count, unroll=False):
            before: nv.Bool = True if begin else number > 0  # whether there is a slice before this one
            if self.in_flight == 0:
                nv.wgmma_wait(0)
                self.release(last, before)
            self.reach(state, at, number)
            product = self.product(state, *at)
            acc = acc.mma(product.a, product.b, scale_d=before)
            if self.in_flight == 1:
                nv.wgmma_wait(1)  # the slice before this one is done
                self.release(last, before)
            last = state
            state = state.next()
        return acc, last, state

    def pass_over(self, state: nv.PipelineState) -> nv.PipelineState:
        """Release the slices of a tile of which this warp multiplies nothing. Returns the ring's next position."""
        for _ in nv.range(self.steps, unroll=False):
            self.ring.wait(state)
            self.release(state)
            state = state.next()
        return state

    def reach(self, slot: nv.PipelineState, at: tuple[Any, Any], number: Any) -> None:
        """Wait until slice ``number`` of a tile may be multiplied, in ``slot``. By a consumer, whose part is ``at``."""
        self.wait(slot)

    def wait(self, slot: nv.PipelineState) -> None:
        """Until a slot's slice has come. By a consumer."""
        self.ring.wait(slot)

    def product(self, slot: nv.PipelineState, top: Any, left: Any, rows: int | None = None) -> Any:
        """Of a slot's slice, what is added to the part that begins at row ``top`` and column ``left`` of the tile.
        ``rows``: of it (default: a consumer's)."""
        return self.a.a(slot.stage, top, rows or self.rows) @ self.b.b(slot.stage, left, self.cols)

    def finish(self, last: nv.PipelineState) -> None:
        """Wait for all products, and release the last slot."""
        nv.wgmma_wait(0)
        self.release(last)

    def release(self, slot: nv.PipelineState, predicate: nv.Bool = True) -> None:
        """This warp has read the slot, if ``predicate``: tell the producers that write into it, here and in the
        cluster."""
        lane = nv.lane_id()
        if self.writers == 1:
            self.ring.release(slot, (lane == 0) & predicate)
        else:
            self.ring.release(slot, (lane < self.writers) & predicate, rank=self.writer(lane))

    def writer(self, number: Any) -> Any:
        """The rank of one of the blocks that write into this block's slots."""
        if self.a.parts == 1 or self.b.parts == 1:
            return number
        other = number - self.a.parts  # the blocks of the row, and the others of the column
        other += nv.select(other >= self._row, 1, 0)
        along = number * self.b.parts + self._row, other + self._col * self.b.parts
        return nv.select(number < self.a.parts, *along)
