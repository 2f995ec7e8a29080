"""Races in global memory within one launch, and reads of what nobody wrote: the history of each element.

Blocks of different clusters have no order but what atomics make (`atomics`). Bulk copies are actors of their own: a
load reads until its mbarrier's phase is waited for, a store writes until its group is. The launch before one that may
start early (programmatic dependent launch) counts as a cluster that griddepcontrol.wait waits for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import atomics
from nvdsl.sim.clocks import ALL_LANES
from nvdsl.sim.histories import UNDEFINED, Histories, Touch
from nvdsl.sim.memory import GlobalMemory
from nvdsl.sim.records import COLLECTIVE
from nvdsl.sim.records import Touch as Part
from nvdsl.sim.report import Access, global_race, lane_race, never_written, out_of_turn, scopes

IN_FLIGHT = 1 << 62
"""The epoch of a copy that has not completed."""

BEFORE, LONG_BEFORE = -1, -2
"""The clusters that stand for the grid before this one, and for those before it for which it did not wait."""

_MANY = 1 << 16
"""Reads that wait for a write, histories of an allocation: more are settled, or looked through for those in use."""


class GlobalShadow:
    """One allocation's accesses. ``numbers``: the history of each unit (see `Histories`).

    ``shift``: log2 of a unit's bytes, as many as the kernel's smallest access (at most 4). ``waiting``: reads before
    anything was written, which are noted unit by unit only once something is.
    """

    def __init__(self, memory: Any, shift: int) -> None:
        self.shift, self._memory = shift, memory
        self.numbers = np.zeros(-(-memory.size // 16) * 16 >> shift, np.int32)
        if memory.undefined is not None:
            self.numbers[:] = memory.undefined.reshape(-1, 1 << shift).all(1) * UNDEFINED  # copies read parts of units
        self._written = memory.undefined is not None
        self._waiting: list[tuple[Any, Any, int]] = []
        self._histories = Histories()
        self._known: dict[Any, int] = {}
        self._after: dict[tuple[int, int], int] = {}
        self._parts: dict[Any, Part] = {}
        self._most = _MANY
        self._waited = False
        self._same: Any = None
        self._is_settled = True

    # --- launches

    @classmethod
    def attach(cls, gmem: GlobalMemory, shift: int, keep: bool) -> None:
        """``keep``: go on from the launch before, which may still run."""
        for memory in gmem.allocations():
            memory.cells.clear()
            if keep and memory.past is not None:
                memory.past._age()
                memory.past._refine(shift)
                memory.shadow = memory.past
            else:
                memory.shadow = cls(memory, shift)

    @staticmethod
    def detach(gmem: GlobalMemory, waited: bool) -> None:
        """The launch is over. ``waited``: some thread of it waited for the launch before."""
        for memory in gmem.allocations():
            shadow = memory.past = memory.shadow
            memory.shadow = None
            if shadow is not None:
                shadow._waited = waited
                if memory.undefined is not None:
                    left = shadow._undefined(shadow.numbers)
                    memory.undefined = left.repeat(1 << shadow.shift) if left.any() else None

    @staticmethod
    def forget(gmem: GlobalMemory) -> None:
        """Something else than a launch comes: it waits for the launch before, and what follows waits for it."""
        for memory in gmem.allocations():
            memory.past = None

    def _age(self) -> None:
        """Make all accesses so far those of a cluster that only who waits for it knows of."""
        self._settle()
        for touch in self._histories.touches[2:]:
            if touch.cluster >= 0:
                touch.access.actor = f"the launch before ({touch.access.actor})"
                touch.cluster = BEFORE
            elif not (self._waited and touch.cluster == BEFORE):
                touch.cluster = LONG_BEFORE
            touch.actor, touch.epoch, touch.place = 0, 1, ()
        self._known.clear()
        self._after.clear()

    def _refine(self, shift: int) -> None:
        """Go on with units that are no larger than this."""
        if shift < self.shift:
            self.numbers = self.numbers.repeat(1 << (self.shift - shift))
            self.shift = shift
            self._parts.clear()

    # --- ordinary and atomic accesses

    def access(
        self, w: Any, offsets: Any, size: int, what: str, writes: bool, at: Where | None, order: Any, same: Any = None
    ) -> None:
        """``what``: "load", "store", or with an ``order`` (see `atomics`) "atomic load", "atomic store", "atomic".
        ``same``: whether a store leaves all as it is, so that it doesn't matter which of two comes last."""
        units = self._units(offsets, size)
        key = (w.block.cluster.number, w.actor, w.epoch, what, writes, at, order and order.scope)
        number = self._known.get(key)
        if number is None:
            access = Access(w.name, what, "generic" if order is None else "atomic", at)
            domain = () if order is None else atomics.domain(w, order.scope)
            number = self._known[key] = self._histories.add(
                Touch(w.block, w.actor, w.epoch, access, writes, what == "atomic", domain)
            )
            w.noted.append(self._histories.touches[number])
        now = self._part(offsets, size, w.bits, what in COLLECTIVE)
        w.touched |= w.bits
        w.accesses += 1
        self._same = same
        self._note(w, self.numbers, units, number, now)
        self._same = None
        parts = self._histories.touches[number].parts
        if parts is not None:
            parts.add(now, self.shift)

    def _part(self, offsets: Any, size: int, lanes: int, collective: bool) -> Part:
        """The same one for the same lanes at the same places."""
        key = offsets if offsets.__class__ is int else offsets.tobytes(), size, lanes, collective
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) > 4096:
                self._parts.clear()
            found = self._parts[key] = Part(offsets, size, lanes, collective)
        return found

    def _units(self, offsets: Any, size: int) -> Any:
        first, count = offsets >> self.shift, max(size >> self.shift, 1)
        if offsets.__class__ is int:
            return slice(first, first + count)
        return first if count == 1 else first + np.arange(count)[:, None]

    def _note(self, w: Any, array: Any, units: Any, number: int, now: Part) -> None:
        """An access of the units of an array (``self.numbers``, or a view of it) that must come after others."""
        if not self._written:
            touch = self._histories.touches[number]
            if not touch.writes:
                self._waiting.append((array, units, number))
                if len(self._waiting) > _MANY:
                    self._settle()
                return
            self._settle()
        self._advance(w, array, units, number, now)

    def _settle(self) -> None:
        """From now on accesses are noted unit by unit."""
        waiting, self._waiting, self._written = self._waiting, [], True
        for array, units, number in waiting:
            self._advance(None, array, units, number, None)

    def _advance(self, w: Any, array: Any, units: Any, number: int, now: Part | None) -> None:
        before = array[units]
        first = before.item(0)
        if (before == first).all():
            following = self._following(w, first, number, now)
            if following != first:
                array[units] = following
        else:
            distinct, places = np.unique(before, return_inverse=True)
            after = [self._following(w, one, number, now) for one in distinct.tolist()]
            array[units] = np.array(after, np.int32)[places].reshape(before.shape)
        if len(self._histories) > self._most:
            self._collect()

    def _following(self, w: Any, history: int, number: int, now: Part | None) -> int:
        found = self._after.get((history, number))
        if found is None:
            self._is_settled = True
            if now is not None:
                self._check(w, history, number, now)
            found = self._histories.after(history, number)
            if self._is_settled:
                self._after[history, number] = found
        return found

    def _collect(self) -> None:
        """Forget histories that no element has any more."""
        live, places = np.unique(self.numbers, return_inverse=True)
        kept = self._histories.keep(live.tolist())
        self.numbers[:] = np.array([kept[n] for n in live.tolist()], np.int32)[places].reshape(self.numbers.shape)
        self._after.clear()
        self._most = max(_MANY, 2 * len(self._histories))

    # --- bulk copies

    def read(self, w: Any, lane: int, region: Any, access: Access) -> Touch:
        """A bulk copy reads a region (see `_region`); its touch is in flight until told otherwise."""
        touch = Touch(w.block, -1, IN_FLIGHT, access, False)
        self._note(w, *self._region(region), self._histories.add(touch), Part(0, 0, 1 << lane))
        return touch

    def write(self, w: Any, lane: int, region: Any, access: Access, actor: int, epoch: int) -> None:
        """A bulk copy writes a region, or combines with it."""
        combines = access.kind == "reduction"
        touch = Touch(w.block, actor, epoch, access, True, combines)
        self._note(w, *self._region(region), self._histories.add(touch), Part(0, 0, 1 << lane))

    def undefined(self, region: Any, access: Access) -> Any:
        """For each byte of the allocation whether nobody wrote it; None where all of the region was written. Raises
        where nothing of it was: part of it may be padding that nobody uses."""
        if self._memory.undefined is None:
            return None
        array, units = self._region(region)
        missing = self._undefined(array[units])
        if missing.all():
            raise never_written(access, self._memory.name)
        return self._undefined(self.numbers).repeat(1 << self.shift) if missing.any() else None

    def _undefined(self, numbers: Any) -> Any:
        """Which of these histories begin with no write, and have none of an atomic since."""
        mine = self._histories
        found = [
            write == UNDEFINED and not any(self._sets(n) for n in mine.since(history))
            for history, write in enumerate(mine.writes)
        ]
        return np.array(found)[numbers]

    def _sets(self, number: int) -> bool:
        touch = self._histories.touches[number]
        return bool(touch.writes and not touch.modifies)

    def _region(self, region: Any) -> tuple[Any, Any]:
        """A view of the units of a region (first byte, extents, strides): extents and strides outermost first, the last
        extent in bytes, strides in bytes."""
        first, extents, strides = region
        start = first >> self.shift
        *outer, size = extents
        last = -(-(first + size) >> self.shift) - start
        steps = tuple((s >> self.shift) * 4 for s in strides[:-1])
        return np.ndarray((*outer, last), np.int32, self.numbers.data, 4 * start, (*steps, 4)), ...

    # --- order

    def _check(self, w: Any, history: int, number: int, now: Part) -> None:
        mine, touch = self._histories, self._histories.touches[number]
        write, since = mine.writes[history], mine.since(history)
        if write > UNDEFINED:
            self._require_order(w, mine.touches[write], touch, now)
        elif write == UNDEFINED:
            self._require_written(w, since, touch)
        if since and (touch.writes or mine.has_writes_since(history)):
            for n in since:
                if n != number and mine.touches[n].conflicts(touch, self._memory.in_turn):
                    self._require_order(w, mine.touches[n], touch, now)

    def _require_written(self, w: Any, since: tuple[int, ...], touch: Touch) -> None:
        """A bulk load may bring what nobody uses: that is for who reads it."""
        if touch.access.kind == "copy" or (touch.writes and not touch.modifies):
            return
        if not any(self._sets(n) and _is_known(w, self._histories.touches[n]) for n in since):
            raise never_written(touch.access, self._memory.name)

    def _require_order(self, w: Any, other: Touch, touch: Touch, now: Part) -> None:
        """Raise unless ``other`` comes before ``touch``, of which ``now`` are the lanes."""
        fenced = touch.is_async and other.writes and not other.is_async
        for _ in w.apart():
            if not w.clock.sees(other.cluster, other.actor, other.epoch, False) or (
                fenced and not w.clock.sees(other.cluster, other.actor, other.epoch, True)
            ):
                self._lanes(w, other, touch, now, fenced)

    def _lanes(self, w: Any, other: Touch, touch: Touch, now: Part, fenced: bool) -> None:
        """The same lane by lane: some of those of the other's warp may have told of what they did."""
        hazard = "war" if not other.writes else "waw" if touch.writes else "raw"
        own = other.cluster == w.clock.cluster and other.actor == w.actor
        known = w.clock.known_of(other.cluster, False)
        unknown = ALL_LANES if known is None else known.unknown(other.actor, other.epoch)
        if own:
            wrong = self._between_lanes(other, touch, now, unknown)
        else:
            wrong = self._touch_the_same(other, touch, now, unknown)
        if not wrong and unknown:
            self._is_settled = False  # of these lanes at these places alone
        if wrong and hazard == "waw" and self._same is not None and not other.is_async and self._same():
            self._is_settled = False  # of these values alone
            return
        if wrong and not own:
            if other.is_atomic and touch.is_atomic:
                raise (scopes if other.conflicts(touch) else out_of_turn)(other.access, touch.access)
            atomics.check_stale(w, other)
            part = None if known is None else known.part(other.actor)
            raise global_race(hazard, other.access, touch.access, False, other.cluster, part)
        if fenced:
            beyond = w.clock.known_of(other.cluster, True)
            unknown = ALL_LANES if beyond is None else beyond.unknown(other.actor, other.epoch)
            if self._touch_the_same(other, touch, now, unknown):
                part = None if beyond is None else beyond.part(other.actor)
                raise global_race(hazard, other.access, touch.access, True, other.cluster, part)
        if wrong and w.block.shadow.between_lanes is None:
            w.block.shadow.between_lanes = lane_race(hazard, other.access, touch.access, self._memory.name)

    def _touch_the_same(self, other: Touch, touch: Touch, now: Part, unknown: int) -> bool:
        """Whether one of these lanes made the other access where the new one is."""
        if not unknown or unknown == ALL_LANES or other.parts is None:
            return unknown == ALL_LANES
        if touch.is_async:
            return bool(other.parts.lanes & unknown)
        return other.parts.meet(now, unknown, self.shift)

    def _between_lanes(self, other: Touch, touch: Touch, now: Part, unknown: int) -> bool:
        """Whether one of these lanes made the other access where another lane of its warp now is."""
        if not unknown or other.parts is None:
            return False
        if other.is_atomic and touch.is_atomic:
            return False
        if touch.is_async:
            return bool(other.parts.lanes & unknown & ~now.lanes)
        return other.parts.others(unknown, now, other.writes, self.shift)


def _is_known(w: Any, other: Touch) -> bool:
    own = other.cluster == w.clock.cluster and other.actor == w.actor
    return own or w.clock.sees(other.cluster, other.actor, other.epoch, False)
