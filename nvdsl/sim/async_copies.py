"""cp.async: a warp's copies from global to shared memory, in groups of each lane.

The bytes come at any time before the wait. Until then nobody may touch them, the copying thread included; then they
are as if the thread that waited had stored them: another thread sees them after a barrier, wgmma after a proxy fence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import shadow
from nvdsl.sim.access import GLOBAL, SHARED, Accessor
from nvdsl.sim.copies import mbarrier
from nvdsl.sim.machine import Waiting
from nvdsl.sim.records import Touch
from nvdsl.sim.report import Access, error
from nvdsl.sim.values import LANES, Element


class AsyncCopy:
    """What the lanes of a warp copy by one instruction: ``size`` bytes to each of ``offsets``, of which ``valid`` come
    from ``sources`` and the others are zeros. ``left``: the lanes (bit by bit) that have not waited for it."""

    __slots__ = ("done", "found", "lanes", "left", "offsets", "size", "sources", "valid", "warp", "who")

    def __init__(self, w: Any, found: Any, offsets: Any, sources: Any, valid: Any, size: int, who: Access) -> None:
        self.warp, self.found, self.offsets, self.sources, self.valid = w, found, offsets, sources, valid
        self.size, self.who, self.done = size, who, False
        self.lanes = list(w.active_lanes())
        self.left = w.bits

    def deliver(self) -> None:
        smem, steps = self.warp.block.smem, np.arange(self.size)
        data = np.zeros((len(self.offsets), self.size), np.uint8)
        inside = steps < self.valid[:, None]
        if inside.any():
            data[inside] = self.found.data[(self.sources[:, None] + steps)[inside]]
        smem.data[self.offsets[:, None] + steps] = data
        smem.version += 1
        self.done = True
        for arrival in [one for one in self.warp.copying.arrivals if one.ready()]:
            self.warp.copying.arrivals.remove(arrival)
            arrival.arrive()

    def arrived(self, lanes: int, actor: int, epoch: int) -> None:
        """For those lanes the copy is over, and its bytes as if ``actor`` had stored them in ``epoch``."""
        w = self.warp
        mine = [i for i, lane in enumerate(self.lanes) if self.left & lanes & 1 << lane]
        bits = sum(1 << self.lanes[i] for i in mine)
        self.left &= ~bits
        if not bits or not w.machine.checks:
            return
        tracker, offsets = w.block.shadow, self.offsets[mine]
        span = shadow.scattered(offsets, self.size, tracker.shift)
        access = Access(self.who.actor, self.who.what, "generic", self.who.where)
        tracker.note(span, access, actor, epoch, Touch(offsets, self.size, bits), True)
        if actor == w.actor:
            w.touched |= bits


class _Arrival:
    """A ``cp.async.mbarrier.arrive.noinc``: it happens when the copies before it are over. ``before``: what had
    happened when it was issued (`Clock.before`)."""

    def __init__(self, barrier: Any, copies: list[AsyncCopy], lanes: int, at: Where | None, w: Any) -> None:
        self.barrier, self.copies, self.lanes, self.at, self.warp = barrier, copies, lanes, at, w
        self.before = np.max([w.clock.before(w.epoch) for _ in w.apart()], axis=0)
        w.epoch += 1

    def ready(self) -> bool:
        return all(copy.done for copy in self.copies)

    def arrive(self) -> None:
        barrier = self.barrier
        for copy in self.copies:
            copy.arrived(self.lanes, barrier.channel, barrier.phase + 1)
        barrier.arrive_async(self.warp.name, self.lanes.bit_count(), self.at, self.before)


class Copying:
    """A warp's copies: those of no group yet (``open``), the groups, each by lane; arrivals that wait for copies."""

    def __init__(self) -> None:
        self.open: dict[int, list[AsyncCopy]] = {}
        self.groups: dict[int, list[list[AsyncCopy]]] = {}
        self.arrivals: list[_Arrival] = []


    def left(self) -> list[AsyncCopy]:
        """Those that a lane has not waited for."""
        groups = [*self.open.values(), *(group for lane in self.groups.values() for group in lane)]
        return [copy for group in groups for copy in group if copy.left]


def copying(w: Any) -> Copying:
    if w.copying is None:
        w.copying = Copying()
    return w.copying


class Copier:
    """The copies of one op: ``count`` elements of ``e`` for each lane. ``tile``: the swizzle and panel stride of the
    `Tile` that they go to."""

    def __init__(self, e: Element, count: int, at: Where | None, tile: Any) -> None:
        self.at, self.size, self.tile = at, e.bytes * count, tile
        self.target = Accessor(SHARED, e, count, self.size, at)
        self.source = Accessor(GLOBAL, e, count, self.size, at)
        self.e = e

    def start(self, w: Any, target: Any, source: Any, valid: Any) -> None:
        """``valid``: the bytes that each lane reads, an int or an array of all lanes."""
        _, block, offsets = self.target.locate(w, target, "cp.async")
        offsets = self._each(w, offsets)
        valid = np.broadcast_to(valid, (LANES,))[w.mask]
        wrong = valid[(valid < 0) | (valid > self.size)]
        if len(wrong):
            raise error(
                "illegal-copy",
                f"{w.name}: a cp.async of {self.size} bytes reads {int(wrong[0])} of them",
                self.at,
                "src-size is 0 to cp-size (PTX ISA, cp.async)",
                "nv.clamp(left, 0, count)",
            )
        found, sources = self._sources(w, source, valid)
        who = Access(w.name, "cp.async", "cp.async", self.at)
        if w.machine.checks:
            tracker = w.block.shadow
            span = shadow.scattered(offsets, self.size, tracker.shift)
            writes = Access(w.name, "cp.async", "generic", self.at)
            for _ in w.apart():
                tracker.compare(span, w.clock, writes, Touch(offsets, self.size, w.bits), True)
            tracker.note(span, who, w.actor, shadow.IN_FLIGHT, Touch(offsets, self.size, w.bits), True)
            block.layouts.stored(offsets, self.size, self.tile)
        made = AsyncCopy(w, found, offsets, sources, valid, self.size, who)
        mine = copying(w)
        for lane in w.active_lanes():
            mine.open.setdefault(lane, []).append(made)
        w.machine.issue(made)

    def _each(self, w: Any, offsets: Any) -> Any:
        return np.full(w.bits.bit_count(), offsets, np.int64) if offsets.__class__ is int else offsets

    def _sources(self, w: Any, source: Any, valid: Any) -> tuple[Any, Any]:
        """The memory that is read, and the offset of each lane; checked in the lanes that read all of the bytes, or as
        many elements as they do."""
        found, sources, outer = None, np.zeros(len(valid), np.int64), w.mask
        lanes = np.flatnonzero(outer)
        for size in sorted({int(n) for n in valid if n}):
            accessor = self.source
            if size != self.size:
                accessor = Accessor(GLOBAL, self.e, size // self.e.bytes, self.size, self.at)
            some = np.zeros(LANES, np.bool_)
            some[lanes[valid == size]] = True
            w.set_mask(some)
            found, _, offsets = accessor.locate(w, source, "cp.async")
            accessor._check(w, found, None, offsets, "load", False)
            sources[valid == size] = offsets
            w.set_mask(outer)
        return found, sources


def commit(w: Any) -> None:
    mine = copying(w)
    if w.record is not None:
        w.record.did("commit cp.async group", None)
    for lane in w.active_lanes():
        mine.groups.setdefault(lane, []).append(mine.open.pop(lane, []))


def wait(w: Any, pending: int, at: Where | None) -> Iterator[Any]:
    """Until at most ``pending`` groups of each active lane are in flight."""
    mine = copying(w)
    waited: dict[int, tuple[AsyncCopy, int]] = {}
    for lane in w.active_lanes():
        groups = mine.groups.get(lane, [])
        for copy in [copy for group in groups[: max(len(groups) - pending, 0)] for copy in group]:
            waited[id(copy)] = copy, waited.get(id(copy), (copy, 0))[1] | 1 << lane
        del groups[: max(len(groups) - pending, 0)]

    def ready() -> bool:
        return all(copy.done for copy, _ in waited.values())

    if not ready():
        yield Waiting(ready, "its cp.async groups", at)
    for copy, lanes in waited.values():
        copy.arrived(lanes, w.actor, w.epoch)


def arrive(w: Any, address: Any, at: Where | None, counted: bool) -> None:
    """cp.async.mbarrier.arrive of the active lanes. ``counted``: .noinc, the barrier's count has these arrivals;
    otherwise one more is pending for each."""
    mine, outer = copying(w), w.mask
    addresses = np.broadcast_to(address, (LANES,))
    for one in sorted({int(addresses[lane]) for lane in w.active_lanes()}):
        w.set_mask(outer & (addresses == one))
        barrier = mbarrier(w, one, at)
        if not counted:
            barrier.pending += w.bits.bit_count()
        copies = {id(c): c for lane in w.active_lanes() for c in _in_flight(mine, lane)}
        arrival = _Arrival(barrier, list(copies.values()), w.bits, at, w)
        if arrival.ready():
            arrival.arrive()
        else:
            mine.arrivals.append(arrival)
        w.set_mask(outer)


def _in_flight(mine: Copying, lane: int) -> list[AsyncCopy]:
    every = [*mine.open.get(lane, []), *(copy for group in mine.groups.get(lane, []) for copy in group)]
    return [copy for copy in every if copy.left >> lane & 1]
