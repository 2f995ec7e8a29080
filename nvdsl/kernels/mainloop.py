"""The loop over K: what a producer's thread and a consumer's warpgroup do for one tile of the result."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.config import Config
from nvdsl.kernels.operands import Operand

CLEARED = 5
"""A named barrier; 1 to 4 are the epilogue's and the turns'."""


class Mainloop:
    """``steps`` slices of K through a ring of slots, made in the kernel by all of its threads.

    The blocks of a cluster that share a tile of B (a column of blocks) or of A (a row) load a part of it each and
    send it to all. So a slot is free when the consumers of all of these blocks have released it.
    """

    def __init__(self, config: Config, a: Operand, b: Operand, steps: int) -> None:
        self.config, self.a, self.b, self.steps = config, a, b, steps
        a.allocate(config.stages)
        b.allocate(config.stages)
        self.rank = nv.cluster_rank() if config.cluster > 1 else 0
        warps = 4 * (config.consumers if config.shared_tile else 1)  # that read one slot
        self.writers = max(config.sharers)  # blocks that write into a slot
        self.ring = nv.Ring(config.stages, bytes=a.bytes + b.bytes, consumers=warps * self.writers, sync=False)

    def clear(self, consumer: Any) -> None:
        """Zero what no load writes. By all consumers, once, before they multiply; the first loads are on their way."""
        operands = [operand for operand in (self.a, self.b) if operand.present < operand.rows]
        threads = 128 * self.config.consumers
        for operand in operands:
            operand.clear(self.config.stages, consumer * 128 + nv.warpgroup_thread(), threads)
        if operands:
            nv.named_barrier_sync(CLEARED, threads)

    def load(
        self, state: nv.PipelineState, batch: Any, row: Any, col: Any, first: Any = 0, last: Any = None
    ) -> nv.PipelineState:
        """Load slices ``first`` to ``last - 1`` (default: all) of a batch's tile at (``row``, ``col``).

        By one thread. Returns the ring's next position.
        """
        everyone = (1 << self.writers) - 1
        for step in nv.range(first, self.steps if last is None else last, unroll=False):
            full = self.ring.acquire(state)
            k = step * self.config.tile_k
            self.a.load(state.stage, full, batch, row, k, part=self.rank, mask=everyone)
            self.b.load(state.stage, full, batch, col, k, part=self.rank, mask=everyone)
            state = state.next()
        return state

    def multiply(
        self, state: nv.PipelineState, top: Any, acc: nv.Accumulator, count: Any = None
    ) -> tuple[Any, Any, Any]:
        """Issue the products of ``count`` slices (default: all; at least 1), of rows ``top`` on of A's tile.

        By one warpgroup. ``acc``: a new accumulator. Returns the sums, the last slot, and the ring's next position;
        `finish` waits for the sums and releases the last slot.
        """
        config = self.config
        # The first slice starts the sums (scale_d = 0): no registers are zeroed.
        self.ring.wait(state)
        acc += self.a.a(state.stage, top, config.rows) @ self.b.b(state.stage)
        last = state
        state = state.next()
        # LLVM would unroll a short loop: more code, and more registers than there are.
        for _ in nv.range(1, self.steps if count is None else count, unroll=False):
            if config.in_flight == 0:
                self.finish(last)
            self.ring.wait(state)
            acc += self.a.a(state.stage, top, config.rows) @ self.b.b(state.stage)
            if config.in_flight == 1:
                nv.wgmma_wait(1)  # the slice before this one is done
                self.release(last)
            last = state
            state = state.next()
        return acc, last, state

    def finish(self, last: nv.PipelineState) -> None:
        """Wait for all products, and release the last slot."""
        nv.wgmma_wait(0)
        self.release(last)

    def release(self, slot: nv.PipelineState) -> None:
        """This warp has read the slot: tell the producers that write into it, here and in the cluster."""
        lane = nv.lane_id()
        if self.writers == 1:
            self.ring.release(slot, lane == 0)
        else:
            self.ring.release(slot, lane < self.writers, rank=lane)
