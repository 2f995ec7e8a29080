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
from nvdsl.kernels.rows.config import RowsConfig

_TURNS, _WORDS = 3, 4


class Exchange:
    """Up to three times, up to four f32 of each warp. All threads of a block make it, before any of them sends."""

    def __init__(self, config: RowsConfig) -> None:
        self.warps, self.blocks = config.threads // 32, config.cluster
        self.parts, self.turn = self.warps * self.blocks, 0
        self.memory = nv.smem(_TURNS * self.parts * _WORDS, nv.f32)
        self.came = nv.Mbarriers(_TURNS, arrivals=1, sync=False)
        nv.cluster_arrive(relaxed=True)

    def meet(self) -> None:
        """All blocks have made it: once, before the first turn. What is loaded before is on its way meanwhile."""
        nv.cluster_wait()

    def of_all(self, mine: Sequence[Any], neutral: Sequence[float]) -> list[list[Any]]:
        """Numbers of all warps: for each of ``mine``, in which the lanes of a warp agree, those that this lane takes,
        and ``neutral`` where there are no more."""
        lane, came = nv.thread_id.x % 32, self.came[self.turn]
        first, words = self.turn * self.parts * _WORDS, 1 << (len(mine) - 1).bit_length()
        self.turn += 1
        if nv.thread_id.x == 0:
            came.arrive_expect_tx(self.parts * words * 4)
        if lane < self.blocks:
            warp = nv.cluster_rank() * self.warps + nv.thread_id.x // 32
            values = nv.vector([*mine, *[nv.f32(0.0)] * (words - len(mine))])
            self.memory.at(lane).store_async(values, first + warp * words, came)
        came.wait(0)
        taken: list[list[Any]] = [[] for _ in mine]
        for start in range(0, self.parts, 32):
            found = [nv.f32(x) for x in neutral]
            if start + 32 <= self.parts or lane < self.parts - start:
                line = self.memory.vector(first + (start + lane) * words, words)
                found = [line[i] for i in range(len(mine))]
            for into, one in zip(taken, found, strict=True):
                into.append(one)
        return taken

    def sums(self, mine: Sequence[Any]) -> tuple[Any, ...]:
        """Of the numbers of all threads."""
        taken = self.of_all(nv.warp.sum(tuple(mine)), [0.0] * len(mine))
        return nv.warp.sum(tuple(reduce(lambda a, b: a + b, one) for one in taken))

    def max(self, mine: Any) -> Any:
        """The greatest number of all threads."""
        (taken,) = self.of_all([nv.warp.max(mine)], [float("-inf")])
        return nv.warp.max(reduce(nv.max, taken))


class ClusterSums:
    """Sums over all threads of a cluster, once in each turn, with one barrier of the cluster. What a warp leaves for
    the others goes to one of two places in turn: between two uses of a place there is the other turn's barrier.
    All threads make it."""

    def __init__(self, count: int, config: RowsConfig) -> None:
        self.warps, self.blocks = config.threads // 32, config.cluster
        self.parts = self.warps * self.blocks
        self.count, self.memory = count, nv.smem(2 * count * self.parts, nv.f32)
        nv.cluster_sync()  # all blocks have begun

    def of(self, mine: tuple[Any, ...], place: nv.Int) -> tuple[Any, ...]:
        """The sums of each of ``mine``. ``place``: 0 and 1 in turn."""
        lane, place = nv.thread_id.x % 32, place * (self.count * self.parts)
        warp = nv.cluster_rank() * self.warps + nv.thread_id.x // 32
        given = nv.warp.sum(mine)
        if lane < self.blocks:
            for i, one in enumerate(given):
                self.memory.at(lane)[place + i * self.parts + warp] = one
        nv.cluster_sync()
        found = []
        for i in range(len(mine)):
            total = nv.f32(0.0)
            for first in range(0, self.parts, 32):
                if first + 32 <= self.parts or lane < self.parts - first:
                    total += self.memory[place + i * self.parts + first + lane]
            found.append(total)
        return nv.warp.sum(tuple(found))
