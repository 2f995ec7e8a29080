"""Races in global memory: the last writer, reader and atomic access of each element, within one launch.

Blocks of different clusters have no order but what atomics make (`atomics`). Bulk copies are actors of their own: a
load reads until its mbarrier's phase is waited for, a store writes until its group is. The launch before one that may
start early (programmatic dependent launch) counts as a cluster that griddepcontrol.wait waits for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim.memory import GlobalMemory
from nvdsl.sim.report import Access, global_race

IN_FLIGHT = 1 << 62
"""The epoch of a copy that has not completed."""

BEFORE = -1
"""The number of the cluster that stands for the grids before this one."""


class Touch:
    """One access: by ``actor`` of ``cluster``, in its ``epoch``."""

    __slots__ = ("access", "actor", "cluster", "epoch")

    def __init__(self, cluster: int, actor: int, epoch: int, access: Access) -> None:
        self.cluster, self.actor, self.epoch, self.access = cluster, actor, epoch, access


class GlobalShadow:
    """One allocation's accesses. ``writers``, ``readers``, ``atomics``: number of the last access of each unit, 0 for
    none; the latter two are made when something needs them.

    ``shift``: log2 of a unit's bytes, as many as the kernel's smallest access (at most 4). ``waiting``: reads by bulk
    copies, which are noted unit by unit only once something writes.
    """

    def __init__(self, size: int, shift: int) -> None:
        self.shift = shift
        self.writers = np.zeros(-(-size // 16) * 16 >> shift, np.int32)
        self.readers: Any = None
        self.atomics: Any = None
        self.is_written = False
        self.waiting: list[tuple[Any, int]] = []
        self._touches: list[Any] = [None]
        self._known: dict[Any, int] = {}

    @classmethod
    def attach(cls, gmem: GlobalMemory, shift: int, keep: bool) -> None:
        """``keep``: go on from the launch before, which may still run."""
        for memory in gmem.allocations():
            memory.cells.clear()
            if keep and memory.past is not None:
                memory.past._age(shift)
                memory.shadow = memory.past
            else:
                memory.shadow = cls(memory.size, shift)

    @staticmethod
    def detach(gmem: GlobalMemory) -> None:
        for memory in gmem.allocations():
            memory.past, memory.shadow = memory.shadow, None

    @staticmethod
    def forget(gmem: GlobalMemory) -> None:
        """Something else than a launch comes: it waits for the launch before, and what follows waits for it."""
        for memory in gmem.allocations():
            memory.past = None

    def _age(self, shift: int) -> None:
        """Make all accesses so far those of one cluster that nobody knows of."""
        for touch in self._touches[1:]:
            touch.cluster, touch.actor, touch.epoch = BEFORE, 0, 1
            touch.access.actor = f"the launch before ({touch.access.actor})"
        self._known.clear()
        self._settle()
        if shift < self.shift:
            parts = 1 << (self.shift - shift)
            for name in ("writers", "readers", "atomics"):
                units = getattr(self, name)
                setattr(self, name, None if units is None else units.repeat(parts))
            self.shift = shift

    # --- ordinary and atomic accesses

    def access(self, w: Any, offsets: Any, size: int, what: str, writes: bool, at: Where | None) -> None:
        """``what``: "load", "store" or "atomic"."""
        units = self._units(offsets, size)
        key = (w.block.cluster.number, w.clock.actor, w.clock.epoch, what, at)
        number = self._known.get(key)
        if number is None:
            kind = "atomic" if what == "atomic" else "generic"
            number = self._known[key] = self._add(w, w.clock.actor, w.clock.epoch, Access(w.name, what, kind, at))
        self._note(w, units, number, writes)

    def _units(self, offsets: Any, size: int) -> Any:
        first, count = offsets >> self.shift, max(size >> self.shift, 1)
        if offsets.__class__ is int:
            return slice(first, first + count)
        return first if count == 1 else first + np.arange(count)[:, None]

    def _add(self, w: Any, actor: int, epoch: int, access: Access) -> int:
        self._touches.append(Touch(w.block.cluster.number, actor, epoch, access))
        return len(self._touches) - 1

    def _note(self, w: Any, units: Any, number: int, writes: bool) -> None:
        kind = self._touches[number].access.kind
        is_atomic = kind in ("atomic", "reduction")
        if self.is_written:
            self._compare(w, self.writers[units], number, "waw" if writes else "raw")
        if self.atomics is not None and not is_atomic:
            self._compare(w, self.atomics[units], number, "waw" if writes else "raw")
        if writes:
            self._settle()
            if self.readers is not None:
                self._compare(w, self.readers[units], number, "war")
        if is_atomic and writes:
            if self.atomics is None:
                self.atomics = np.zeros_like(self.writers)
            self.atomics[units] = number
        elif writes:
            self.writers[units] = number
            self.is_written = True
        elif not is_atomic:
            if self.readers is None:
                self.readers = np.zeros_like(self.writers)
            self.readers[units] = number

    # --- bulk copies

    def read(self, w: Any, region: Any, access: Access) -> Touch:
        """A bulk copy reads a region (see `_region`); its touch is in flight until told otherwise."""
        number = self._add(w, -1, IN_FLIGHT, access)
        for array in (self.writers if self.is_written else None, self.atomics):
            if array is not None:
                self._compare(w, self._region(array, region), number, "raw")
        self.waiting.append((region, number))
        return self._touches[number]

    def write(self, w: Any, region: Any, access: Access, actor: int, epoch: int) -> None:
        """A bulk copy writes a region, or combines with it."""
        number = self._add(w, actor, epoch, access)
        self._settle()
        is_atomic = access.kind == "reduction"
        if self.is_written:
            self._compare(w, self._region(self.writers, region), number, "waw")
        if self.atomics is not None and not is_atomic:
            self._compare(w, self._region(self.atomics, region), number, "waw")
        if self.readers is not None:
            self._compare(w, self._region(self.readers, region), number, "war")
        if is_atomic and self.atomics is None:
            self.atomics = np.zeros_like(self.writers)
        self._region(self.atomics if is_atomic else self.writers, region)[...] = number
        self.is_written = self.is_written or not is_atomic

    def _settle(self) -> None:
        if self.waiting and self.readers is None:
            self.readers = np.zeros_like(self.writers)
        for region, number in self.waiting:
            self._region(self.readers, region)[...] = number
        self.waiting.clear()

    def _region(self, array: Any, region: Any) -> Any:
        """The units of a region (first byte, extents, strides): extents and strides outermost first, the last extent in
        bytes, strides in bytes."""
        first, extents, strides = region
        start = first >> self.shift
        *outer, size = extents
        last = -(-(first + size) >> self.shift) - start
        steps = tuple((s >> self.shift) * 4 for s in strides[:-1])
        return np.ndarray((*outer, last), np.int32, array.data, 4 * start, (*steps, 4))

    # --- order

    def _compare(self, w: Any, earlier: Any, number: int, hazard: str) -> None:
        low, high = int(earlier.min()), int(earlier.max())
        if high == 0 or (low == high == number):
            return
        mine = self._touches[number].access
        is_async = mine.kind in ("copy", "store", "reduction")
        few = low in (0, high) and (earlier == high).sum() + (earlier == 0).sum() == earlier.size
        for one in (high,) if few else np.unique(earlier).tolist():
            if one == 0 or one == number:
                continue
            other = self._touches[one]
            fenced = is_async and hazard != "war" and other.access.kind in ("generic", "atomic")
            same = other.cluster == w.clock.cluster and other.actor == w.clock.actor
            if (same and not fenced) or w.clock.sees(other.cluster, other.actor, other.epoch, fenced):
                continue
            fence_only = fenced and (same or w.clock.sees(other.cluster, other.actor, other.epoch, False))
            raise global_race(hazard, other.access, mine, fence_only, other.cluster == BEFORE)
