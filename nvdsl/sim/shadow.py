"""What happened to each byte: unordered accesses are races.

A set of bytes is a Python int with one bit for each unit (a power of two of bytes, as small as the kernel's
smallest ordinary access), because and/or/not on those are fast. An access is compared with the records of earlier ones
that it overlaps: it must come after them by the vector clocks (FastTrack's rule), else it is a race.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import SimError
from nvdsl.hopper import arch
from nvdsl.sim.clocks import Part
from nvdsl.sim.records import Record, Span, Touch
from nvdsl.sim.report import Access, lane_race, opaque, race, scopes

IN_FLIGHT = 1 << 62
"""The epoch of a copy that has not completed: nobody has seen it."""

_MANY = 64


class Shadow:
    """The records of one block's shared memory. ``shift``: log2 of the bytes of a unit; ``owner``: whose it is, said of
    the blocks of a cluster; ``fences``: where the proxy fences of this memory are in a clock
    (`clocks.Clocks.nothing_fenced`). ``between_lanes``: the first race between lanes of one warp, said at the block's
    end: a race between warps at the same place says more."""

    def __init__(self, shift: int, base: int, owner: str = "", fences: int = 0) -> None:
        self.shift, self.base, self.owner, self.fences = shift, base, owner, fences
        self.reads: list[Record] = []
        self.writes: list[Record] = []
        self.written = 0
        self.uninitialized: tuple[int, Access] | None = None
        self.between_lanes: SimError | None = None
        self._mbarriers: dict[int, tuple[Span, Any]] = {}
        self._opaque: Span = (0, 0, 0)  # the bytes of mbarriers

    def read(self, span: Span, clock: Any, access: Access, actor: int, epoch: int, touch: Touch) -> Record:
        """``clock``, ``touch``: of the lanes that read, or that issued the async operation that does.

        Bytes that nothing has written yet may be those of a write that should have come first: that is said when
        it comes, and at the block's end if it doesn't.
        """
        self.compare(span, clock, access, touch, False)
        return self.note(span, access, actor, epoch, touch, False)

    def write(self, span: Span, clock: Any, access: Access, actor: int, epoch: int, touch: Touch) -> Record:
        self.compare(span, clock, access, touch, True)
        return self.note(span, access, actor, epoch, touch, True)

    def note(
        self, span: Span, access: Access, actor: int, epoch: int, touch: Touch, writes: bool, needed: int | None = None
    ) -> Record:
        """``needed``: the bits of what is used of the bytes that are read (None: all)."""
        by = touch if access.kind in ("generic", "atomic") else None
        if writes:
            if access.kind != "atomic":  # who comes after an atomic need not come after what was there before it
                _remove(self.writes, span)
                _remove(self.reads, span)
            fresh = span[0] & ~self.written if access.what == "atomic" else 0
            if fresh and self.uninitialized is None:
                self.uninitialized = fresh, access
            self.written |= span[0]
            return _add(self.writes, span, access, actor, epoch, by)
        record = _add(self.reads, span, access, actor, epoch, by)
        if span[0] & self.written != span[0]:
            fresh = span[0] & ~self.written
            record.fresh |= fresh
            if needed is not None:
                fresh &= needed
            if fresh and self.uninitialized is None:
                self.uninitialized = fresh, access
        return record

    def lost(self, span: Span) -> Access | None:
        """The copy of which a copy to ``span`` would overwrite a part, though nobody has read any of it."""
        mask, lo, hi = span
        for record in self.writes:
            if record.lo < hi and lo < record.hi and record.parts[0][1].kind == "copy" and record.lo != lo:
                if record.mask & mask and record.mask & ~mask and not any(r.mask & record.mask for r in self.reads):
                    return record.parts[0][1]
        return None

    def compare(
        self, span: Span, clock: Any, access: Access, touch: Touch, writes: bool, same: Any = None
    ) -> None:
        """Raise unless the access comes after those that it conflicts with. ``same``: whether a store leaves all as it
        is, so that it doesn't matter which of two comes last."""
        mask, low, high = self._opaque
        if mask and low < span[2] and span[1] < high and mask & span[0]:
            raise next(opaque(access, barrier) for one, barrier in self._mbarriers.values() if one[0] & span[0])
        self._check(self.writes, span, clock, access, touch, "waw" if writes else "raw", same)
        if writes:
            self._check(self.reads, span, clock, access, touch, "war")

    def _check(
        self, records: list[Record], span: Span, clock: Any, access: Access, touch: Touch, hazard: str,
        same: Any = None,
    ) -> None:  # fmt: skip
        mask, lo, hi = span
        is_atomic = access.kind == "atomic"
        is_async = access.kind != "generic" and not is_atomic
        generic, proxy = clock.generic.upto, clock.proxy.upto
        for record in records:
            if record.lo < hi and lo < record.hi:
                fenced = is_async and record.is_generic and hazard != "war"
                actor, epoch = record.actor, record.epoch
                if epoch <= generic[actor] and (not fenced or epoch <= proxy[self.fences + actor]):
                    continue
                common = record.mask & mask
                if not common:
                    continue
                if is_atomic and record.is_atomic:
                    earlier = record.access(common)
                    if not (earlier.holds(access) and access.holds(earlier)):
                        raise scopes(earlier, access, self.describe(common))
                    continue
                if same is not None and record.is_generic and hazard == "waw" and same():
                    continue
                if record.is_generic:
                    self._lanes(record, common, clock, access, touch, hazard, fenced)
                else:
                    self._raise(record, common, access, hazard)

    def _lanes(
        self, record: Record, common: int, clock: Any, access: Access, touch: Touch, hazard: str, fenced: bool
    ) -> None:
        """The same lane by lane: some of those of the record's warp may have told of what they did."""
        actor = record.actor
        unknown = clock.generic.unknown(actor, record.epoch)
        own = actor == clock.actor
        if not own or access.kind not in ("generic", "atomic"):
            wrong = common & record.by(unknown & ~touch.lanes if own else unknown, self.shift)
        else:
            wrong = record.others(unknown, touch, hazard != "war", self.shift, common) if unknown else 0
        if wrong and not own:
            self._raise(record, wrong, access, hazard, clock.generic.part(actor))
        fence = self.fences + actor
        bare = common & record.by(clock.proxy.unknown(fence, record.epoch), self.shift) if fenced else 0
        if bare:
            raise race(hazard, record.access(bare), access, self.describe(bare), True, clock.proxy.part(fence))
        if wrong and self.between_lanes is None:
            self.between_lanes = lane_race(hazard, record.access(wrong), access, self.describe(wrong))

    def _raise(self, record: Record, wrong: int, access: Access, hazard: str, part: Part | None = None) -> None:
        """What was read before anything was written there should have been written first."""
        fresh = wrong & record.fresh if hazard == "war" else 0
        if fresh:
            raise race("raw", access, record.access(fresh), self.describe(wrong), False)
        raise race(hazard, record.access(wrong), access, self.describe(wrong), False, part)

    def occupy(self, address: int, barrier: Any) -> None:
        """From now on an mbarrier is there, None: none any more."""
        if barrier is None:
            del self._mbarriers[address]
        else:
            self._mbarriers[address] = interval(address, address + arch.MBARRIER_BYTES, self.shift), barrier
        mask, low, high = 0, 1 << 60, 0
        for (bits, first, last), _ in self._mbarriers.values():
            mask, low, high = mask | bits, min(low, first), max(high, last)
        self._opaque = mask, low, high

    def describe(self, mask: int) -> str:
        """The first run of bytes of a set, as a text."""
        low = (mask & -mask).bit_length() - 1
        run = ~(mask >> low)
        length = (run & -run).bit_length() - 1
        start = (low << self.shift) - self.base
        more = "" if mask >> (low + length) == 0 else " (and more)"
        return f"bytes {start}..{start + (length << self.shift) - 1} of {self.owner}shared memory{more}"


def _add(
    records: list[Record], span: Span, access: Access, actor: int, epoch: int, touch: Touch | None
) -> Record:
    if epoch != IN_FLIGHT:
        for record in reversed(records[-8:]):
            if record.actor == actor and record.epoch == epoch and record.is_atomic == (access.kind == "atomic"):
                record.extend(span, access, touch)
                return record
    record = Record(actor, epoch, span, access, touch)
    records.append(record)
    if len(records) > _MANY:
        _prune(records)
    return record


def _remove(records: list[Record], span: Span) -> None:
    """What an ordinary write replaces is ordered before it, so that whoever is ordered after the write needs no more.
    """
    mask, lo, hi = span
    emptied = False
    for record in records:
        if record.lo < hi and lo < record.hi:
            common = record.mask & mask
            if common:
                record.mask ^= common
                emptied = emptied or not record.mask
    if emptied:
        records[:] = [record for record in records if record.mask]


def _prune(records: list[Record]) -> None:
    """A later access by the same actor to the same bytes says all that an earlier one does; an atomic, only all that an
    atomic does."""
    seen: dict[tuple[int, bool], int] = {}
    for record in reversed(records):
        if record.epoch == IN_FLIGHT:
            continue
        before = seen.get((record.actor, False), 0)
        if record.is_atomic:
            before |= seen.get((record.actor, True), 0)
        record.mask &= ~before
        seen[record.actor, record.is_atomic] = before | record.mask
    records[:] = [record for record in records if record.mask]


def interval(start: int, stop: int, shift: int) -> Span:
    """Bytes ``start`` to ``stop`` (addresses, ``stop`` not included) as a span."""
    lo, hi = start >> shift, -(-stop >> shift)
    return ((1 << (hi - lo)) - 1) << lo, lo, hi


def intervals(ranges: Any, shift: int) -> Span:
    """The union of (start, stop) byte ranges."""
    mask, low, high = 0, 1 << 60, 0
    for start, stop in ranges:
        bits, lo, hi = interval(int(start), int(stop), shift)
        mask, low, high = mask | bits, min(low, lo), max(high, hi)
    return mask, low, high


def scattered(addresses: Any, size: int, shift: int) -> Span:
    """``size`` bytes at each of an array of addresses."""
    low, high = int(addresses.min()), int(addresses.max())
    if high - low == size * (len(addresses) - 1) and (np.diff(addresses) == size).all():
        return interval(low, high + size, shift)
    base, bits = low >> shift, 0
    for address in set(addresses.tolist()):
        lo, hi = address >> shift, -(-(address + size) >> shift)
        bits |= ((1 << (hi - lo)) - 1) << (lo - base)
    return bits << base, base, -(-(high + size) >> shift)
