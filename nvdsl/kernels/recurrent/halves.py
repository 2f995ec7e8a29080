"""Sums of which two blocks of a cluster have a half each: along K, of the columns of both."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.recurrent.exchange import ROWS
from nvdsl.lang.distributed import Where, made

_VECTOR = 4
"""Elements of f32 that a thread sends at a time."""


class Halves:
    """Each block sends its sums of the other's ``units`` columns there, and adds what comes to its own. Made in the
    kernel; a barrier of the cluster has to follow, and another one before the end."""

    def __init__(self, units: int, consumers: int) -> None:
        self.units = units
        self.memory = nv.smem(consumers * ROWS * units, nv.f32)
        self.came = nv.Mbarriers(consumers, arrivals=1, sync=False)

    def add(self, acc: nv.Accumulator, me: Any, step: Any) -> Any:
        """The whole sums of this block's columns of ``acc``, which has those of block 0 and of block 1 side by side. By
        one warpgroup, ``me``, once in each step; the other block's sums of the step before have been added then.

        A fragment's registers are the same in both blocks, so each thread sends to the one of its number.
        """
        rank = nv.cluster_rank()
        first, second = acc[:, : self.units], acc[:, self.units :]
        mine, other = nv.where(rank == 0, first, second), nv.where(rank == 0, second, first)
        full, peer = self.came[me], self.memory.at(1 - rank)
        if nv.warpgroup_thread() == 0:
            full.arrive_expect_tx(ROWS * self.units * 4)
        sums = [x for line in other.grid() for x in line]
        places = [self._place(me, i) for i in range(0, len(sums), _VECTOR)]
        for i, place in enumerate(places):
            peer.store_async(nv.vector(sums[i * _VECTOR : (i + 1) * _VECTOR]), place, full)
        full.wait(step & 1)
        found = iter([x for place in places for x in self.memory.vector(place, _VECTOR)])
        grid = [[next(found) for _ in line] for line in other.grid()]
        return mine + made(Where(mine.axes, False), nv.f32, grid)

    def _place(self, me: Any, element: int) -> Any:
        number = me * (ROWS * self.units // (128 * _VECTOR)) + element // _VECTOR
        return (number * 128 + nv.warpgroup_thread()) * _VECTOR
