"""Races in global memory, within one launch: the last writer and reader of each element.

Blocks of different clusters have no order, unless the kernel uses atomics: then only accesses of one cluster are
compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim.memory import GlobalMemory
from nvdsl.sim.report import Access, race


class GlobalShadow:
    """One allocation's accesses. ``writers``, ``readers``: number of the last access of each unit, 0 for none.

    ``shift``: log2 of a unit's bytes, as many as the kernel's smallest access (at most 4).
    """

    def __init__(self, size: int, shift: int) -> None:
        self.shift = shift
        self.writers = np.zeros(-(-size // (1 << shift)), np.int32)
        self.readers: Any = None
        self._accesses: list[Any] = [None]
        self._known: dict[Any, int] = {}

    @classmethod
    def attach(cls, gmem: GlobalMemory, shift: int) -> None:
        for memory in gmem.allocations():
            memory.shadow = cls(memory.size, shift)

    @staticmethod
    def detach(gmem: GlobalMemory) -> None:
        for memory in gmem.allocations():
            memory.shadow = None

    def access(self, w: Any, offsets: Any, size: int, writes: bool, at: Where | None) -> None:
        units = self._units(offsets, size)
        number = self._number(w, writes, at)
        self._compare(w, self.writers[units], number, writes)
        if writes:
            if self.readers is not None:
                self._compare(w, self.readers[units], number, writes)
            self.writers[units] = number
        else:
            if self.readers is None:
                self.readers = np.zeros_like(self.writers)
            self.readers[units] = number

    def _units(self, offsets: Any, size: int) -> Any:
        first, count = offsets >> self.shift, max(size >> self.shift, 1)
        if offsets.__class__ is int:
            return slice(first, first + count)
        return first if count == 1 else first + np.arange(count)[:, None]

    def _number(self, w: Any, writes: bool, at: Where | None) -> int:
        cluster = w.block.cluster.number
        key = (cluster, w.clock.actor, w.clock.epoch, writes, at)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._accesses)
            access = Access(w.name, "store" if writes else "load", "generic", at)
            self._accesses.append((cluster, w.clock.actor, w.clock.epoch, access))
        return found

    def _compare(self, w: Any, earlier: Any, number: int, writes: bool) -> None:
        low, high = int(earlier.min()), int(earlier.max())
        if high == 0 or (low == high == number):
            return
        cluster, actor, _, access = self._accesses[number]
        for one in (high,) if low in (0, high) and (earlier == high).sum() + (earlier == 0).sum() == earlier.size else (
            np.unique(earlier).tolist()
        ):
            if one == 0:
                continue
            its_cluster, its_actor, its_epoch, before = self._accesses[one]
            if its_cluster == cluster:
                ordered = its_actor == actor or its_epoch <= w.clock.generic[its_actor]
            else:
                ordered = getattr(w.machine, "atomics", False)
            if not ordered:
                hazard = "raw" if not writes else "waw" if before.what == "store" else "war"
                raise race(hazard, before, access, "elements of global memory", False)
