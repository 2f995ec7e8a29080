"""What happened to each byte: unordered accesses are races.

A set of bytes is a Python int with one bit for each unit (a power of two of bytes, as small as the kernel's
smallest ordinary access), because and/or/not on those are fast. An access is compared with the records of earlier ones
that it overlaps: it must come after them by the vector clocks (FastTrack's rule), else it is a race.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.sim.report import Access, race

IN_FLIGHT = 1 << 62
"""The epoch of a copy that has not completed: nobody has seen it."""

_MANY = 64


class Record:
    """Bytes that one actor read or wrote in one epoch. ``parts``: which access touched which, for the report."""

    __slots__ = ("actor", "epoch", "fresh", "hi", "is_atomic", "is_generic", "lo", "mask", "parts")

    def __init__(self, actor: int, epoch: int, span: Span, access: Access) -> None:
        self.actor, self.epoch = actor, epoch
        self.mask, self.lo, self.hi = span
        self.is_atomic = access.kind == "atomic"
        self.is_generic = self.is_atomic or access.kind == "generic"
        self.parts = [(self.mask, access)]
        self.fresh = 0  # what was read before anything was written there

    def extend(self, span: Span, access: Access) -> None:
        mask, lo, hi = span
        self.mask |= mask
        self.lo, self.hi = min(self.lo, lo), max(self.hi, hi)
        if self.parts[-1][1].where != access.where or self.parts[-1][1].what != access.what:
            self.parts.append((mask, access))
        else:
            self.parts[-1] = (self.parts[-1][0] | mask, self.parts[-1][1])

    def access(self, common: int) -> Access:
        return next((access for mask, access in reversed(self.parts) if mask & common), self.parts[0][1])


Span = tuple[int, int, int]
"""(bits, first unit, unit after the last)."""


class Shadow:
    """The records of one block's shared memory. ``shift``: log2 of the bytes of a unit."""

    def __init__(self, shift: int, base: int) -> None:
        self.shift, self.base = shift, base
        self.reads: list[Record] = []
        self.writes: list[Record] = []
        self.written = 0
        self.uninitialized: tuple[int, Access] | None = None

    def read(self, span: Span, clock: Any, access: Access, actor: int, epoch: int) -> Record:
        """``clock``: of the warp that reads, or that issued the async operation that does.

        Bytes that nothing has written yet may be those of a write that should have come first: that is said when
        it comes, and at the block's end if it doesn't.
        """
        self._check(self.writes, span, clock, access, "raw")
        record = _add(self.reads, span, access, actor, epoch)
        if span[0] & self.written != span[0]:
            fresh = span[0] & ~self.written
            record.fresh |= fresh
            if self.uninitialized is None and access.kind != "store":
                self.uninitialized = fresh, access
        return record

    def write(self, span: Span, clock: Any, access: Access, actor: int, epoch: int) -> Record:
        self._check(self.writes, span, clock, access, "waw")
        self._check(self.reads, span, clock, access, "war")
        _remove(self.writes, span)
        _remove(self.reads, span)
        self.written |= span[0]
        return _add(self.writes, span, access, actor, epoch)

    def _check(self, records: list[Record], span: Span, clock: Any, access: Access, hazard: str) -> None:
        mask, lo, hi = span
        is_atomic = access.kind == "atomic"
        is_async = access.kind != "generic" and not is_atomic
        generic, proxy = clock.generic, clock.proxy
        for record in records:
            if record.lo < hi and lo < record.hi:
                fenced = is_async and record.is_generic and hazard != "war"
                if record.epoch <= (proxy if fenced else generic)[record.actor]:
                    continue
                common = record.mask & mask
                if is_atomic and record.is_atomic:
                    continue
                if common & record.fresh and hazard == "war":
                    raise race("raw", access, record.access(common & record.fresh), self.describe(common), False)
                if common:
                    ordered = record.epoch <= generic[record.actor]
                    raise race(hazard, record.access(common), access, self.describe(common), ordered)

    def describe(self, mask: int) -> str:
        """The first run of bytes of a set, as a text."""
        low = (mask & -mask).bit_length() - 1
        run = ~(mask >> low)
        length = (run & -run).bit_length() - 1
        start = (low << self.shift) - self.base
        more = "" if mask >> (low + length) == 0 else " (and more)"
        return f"bytes {start}..{start + (length << self.shift) - 1} of shared memory{more}"


def _add(records: list[Record], span: Span, access: Access, actor: int, epoch: int) -> Record:
    if epoch != IN_FLIGHT:
        for record in reversed(records[-8:]):
            if record.actor == actor and record.epoch == epoch and record.is_atomic == (access.kind == "atomic"):
                record.extend(span, access)
                return record
    record = Record(actor, epoch, span, access)
    records.append(record)
    if len(records) > _MANY:
        _prune(records)
    return record


def _remove(records: list[Record], span: Span) -> None:
    """What a write replaces is ordered before it, so that whoever is ordered after the write needs no more."""
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
    """A later access by the same actor to the same bytes says all that an earlier one does."""
    seen: dict[int, int] = {}
    for record in reversed(records):
        if record.epoch == IN_FLIGHT:
            continue
        before = seen.get(record.actor, 0)
        if before:
            record.mask &= ~before
        seen[record.actor] = before | record.mask
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
