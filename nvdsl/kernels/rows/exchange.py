"""What the warps of a cluster tell each other.

A barrier of the cluster waits for all that its threads have written anywhere. Here a warp sends its numbers to every
block (PTX ISA, st.async), and whoever needs them waits on an mbarrier of its own block until those of all warps have
come. No block returns before what the others send it is there. The one barrier, at the start, orders nothing but the
inits of the mbarriers, which have a fence of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import nvdsl as nv
from nvdsl.kernels.rows.config import EXCHANGES, WORDS, RowsConfig


class Exchange:
    """Up to three times, up to four f32 of each warp. All threads of a block make it, before any of them sends."""

    def __init__(self, config: RowsConfig) -> None:
        self.warps, self.blocks = config.threads // 32, config.cluster
        self.parts, self.turn = self.warps * self.blocks, 0
        self.lanes = min(1 << (self.parts - 1).bit_length(), 32)
        self.memory = nv.smem(EXCHANGES * self.parts * WORDS, nv.f32)
        self.came = nv.Mbarriers(EXCHANGES, arrivals=1, sync=False)
        nv.cluster_arrive(relaxed=True)

    def meet(self) -> None:
        """All blocks have made it: once, before the first turn. What is loaded before is on its way meanwhile."""
        nv.cluster_wait()

    def of_all(self, mine: Sequence[Any], neutral: Sequence[float]) -> list[list[Any]]:
        """Numbers of all warps: for each of ``mine``, in which the lanes of a warp agree, those that this lane takes,
        and ``neutral`` where there are no more."""
        first, words = self.turn * self.parts * WORDS, 1 << (len(mine) - 1).bit_length()
        values = nv.vector([*mine, *[nv.f32(0.0)] * (words - len(mine))])
        self._tell(values, first)
        self.turn += 1
        lane = nv.thread_id.x % self.lanes
        taken: list[list[Any]] = [[] for _ in mine]
        for start in range(0, self.parts, self.lanes):
            found = [nv.f32(x) for x in neutral]
            if start + self.lanes <= self.parts or lane < self.parts - start:
                line = self.memory.vector(first + (start + lane) * words, words)
                found = [line[i] for i in range(len(mine))]
            for into, one in zip(taken, found, strict=True):
                into.append(one)
        return taken

    def first(self) -> Any:
        """The first number of the first warp, in the last turn."""
        return self.memory[(self.turn - 1) * self.parts * WORDS]

    def _tell(self, values: Any, first: int) -> None:
        """Leave what a warp has in all blocks, and wait for what all have left."""
        lane, warp = nv.thread_id.x % 32, nv.thread_id.x // 32
        words, came = values.shape[0], self.came[self.turn]
        if nv.thread_id.x == 0:
            came.arrive_expect_tx(self.parts * words * 4)
        if lane < self.blocks:
            part = nv.cluster_rank() * self.warps + warp
            self.memory.at(lane).store_async(values, first + part * words, came)
        came.wait(0)

    def sum(self, *taken: Sequence[Any]) -> tuple[Any, ...]:
        """Of all that the lanes took."""
        return nv.warp.sum(tuple(reduce(lambda a, b: a + b, one) for one in taken), width=self.lanes)

    def greatest(self, taken: Sequence[Any]) -> Any:
        return nv.warp.max(reduce(nv.max, taken), width=self.lanes)

    def sums(self, mine: Sequence[Any]) -> tuple[Any, ...]:
        """Of the numbers of all threads."""
        return self.sum(*self.of_all(nv.warp.sum(tuple(mine)), [0.0] * len(mine)))

    def max(self, mine: Any) -> Any:
        """The greatest number of all threads."""
        (taken,) = self.of_all([nv.warp.max(mine)], [float("-inf")])
        return self.greatest(taken)


TURNS = 4
"""Places for the numbers of as many turns; three would be enough, and take more registers to count."""


class TurnSums:
    """Sums over all threads of a row, turn after turn: what is given in one turn is taken in the next, and what a warp
    gives is on its way meanwhile. All threads make it.

        give(mine, 0)
        each turn: wait(turn), give(the next, turn + 1), take(turn)
        end(behind the last turn)

    In a block, who gives in turn j + 1 has waited for what all gave in turn j, which they did after they had taken in
    turn j - 2, before it writes where those of turn j - 2 were. In a cluster numbers come by st.async, and one warp,
    another one in each turn, tells the other blocks which places have been read. Who tells others of that waits for all
    that it has written anywhere (MEMBAR.ALL.GPU): at a barrier of the cluster all warps would."""

    def __init__(self, count: int, config: RowsConfig) -> None:
        self.count, self.config = count, config
        self.warps, self.blocks = config.threads // 32, config.cluster
        self.parts = self.warps * self.blocks
        if config.lanes <= 32:
            return
        self.memory = nv.smem(TURNS * count * self.parts, nv.f32)
        if self.blocks > 1:
            self.came = nv.Mbarriers(TURNS, arrivals=1, sync=False)
            self.done = nv.Mbarriers(TURNS, arrivals=self.warps, sync=False)
            self.free = nv.Mbarriers(TURNS, arrivals=self.blocks, sync=False)
            nv.cluster_sync()
        else:
            self.came = nv.Mbarriers(TURNS, arrivals=self.warps)

    def give(self, mine: Sequence[Any], turn: nv.Int) -> tuple[Any, ...]:
        """Tell all others, and don't wait for them. `take` wants what this returns."""
        if self.config.lanes <= 32:
            return tuple(nv.block.sum(tuple(mine), width=self.config.lanes))
        lane, warp = nv.thread_id.x % 32, nv.thread_id.x // 32
        first, sums = turn % TURNS * (self.count * self.parts), nv.warp.sum(tuple(mine))
        if self.blocks > 1:
            if nv.thread_id.x == 0:
                self.came[turn % TURNS].arrive_expect_tx(self.parts * self.count * 4)
            self.free[turn % TURNS].wait(_phase(turn) ^ 1, scope="cluster")
            if lane < self.blocks:
                part = nv.cluster_rank() * self.warps + warp
                self.memory.at(lane).store_async(nv.vector(sums), first + part * self.count, self.came[turn % TURNS])
        else:
            nv.sync_warp()
            if lane == 0:
                self.memory.store_vector(nv.vector(sums), first + warp * self.count)
                self.came[turn % TURNS].arrive()
        return ()

    def wait(self, turn: nv.Int) -> None:
        """Until all have given."""
        if self.config.lanes > 32:
            self.came[turn % TURNS].wait(_phase(turn))

    def end(self, turn: nv.Int | None = None) -> None:
        """No block returns before the others have told it all. ``turn``: of what was given, and is not taken."""
        if self.blocks > 1:
            if turn is not None:
                self.wait(turn)
            nv.cluster_sync()

    def take(self, given: tuple[Any, ...], turn: nv.Int) -> tuple[Any, ...]:
        """The sums. ``given``: what `give` returned."""
        if self.config.lanes <= 32:
            return given
        lane, start = nv.thread_id.x % 32, turn % TURNS * (self.count * self.parts)
        found = [nv.f32(0.0) for _ in range(self.count)]
        for first in range(0, self.parts, 32):
            if first + 32 <= self.parts or lane < self.parts - first:
                line = self.memory.vector(start + (first + lane) * self.count, self.count)
                found = [one + line[i] for i, one in enumerate(found)]
        if self.blocks > 1:
            nv.sync_warp()
            if lane == 0:
                self.done[turn % TURNS].arrive()
            if nv.thread_id.x // 32 == nv.i32(turn % self.warps):
                self.done[turn % TURNS].wait(_phase(turn))
                if lane < self.blocks:
                    self.free[turn % TURNS].arrive_cluster(lane)
        return tuple(nv.warp.sum(tuple(found)))


def _phase(turn: nv.Int) -> nv.Int:
    return turn // TURNS % 2
