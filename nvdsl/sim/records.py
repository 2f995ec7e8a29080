"""What is remembered of accesses of shared memory: which bytes, in which epoch of an actor, by which lanes.

A set of bytes is a Python int with one bit for each unit: see `shadow`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.sim.lanes import mask_of
from nvdsl.sim.report import Access

Span = tuple[int, int, int]
"""(bits, first unit, unit after the last)."""


COLLECTIVE = frozenset(("ldmatrix", "stmatrix", "wmma.load.a", "wmma.load.b"))
"""Accesses by all lanes of a warp together, of which each may touch every part."""

_NOTHING = np.zeros(0, np.int64)


class Touch:
    """Which lanes access which bytes in one op: ``size`` bytes at each of ``offsets``, one for each of ``lanes`` (bit
    by bit), or all of the lanes at the one place that they agree on. ``collective``: lanes that move a matrix
    together, of which each may touch all of it."""

    __slots__ = ("_units", "collective", "lanes", "offsets", "size")

    def __init__(self, offsets: Any, size: int, lanes: int, collective: bool = False) -> None:
        self.offsets, self.size, self.lanes, self.collective = offsets, size, lanes, collective
        self._units: tuple[Any, Any] | None = None

    @property
    def alike(self) -> bool:
        """Whether all lanes touch the same place."""
        return self.offsets.__class__ is int

    def units(self, shift: int) -> tuple[Any, Any]:
        """(units, ascending, and for each the lanes that touch it, bit by bit)."""
        if self._units is None:
            steps = np.arange(max(self.size >> shift, 1))
            if self.alike:
                units = (self.offsets >> shift) + steps
                self._units = units, np.full(len(units), self.lanes, np.int64)
                return self._units
            every = ((self.offsets >> shift)[:, None] + steps).reshape(-1)
            if self.collective:
                units = np.unique(every)
                self._units = units, np.full(len(units), self.lanes, np.int64)
                return self._units
            bits = np.repeat(1 << np.flatnonzero(mask_of(self.lanes)), len(steps))
            if (every[1:] > every[:-1]).all():
                self._units = every, bits
                return self._units
            units, place = np.unique(every, return_inverse=True)
            masks = np.zeros(len(units), np.int64)
            np.bitwise_or.at(masks, place, bits)
            self._units = units, masks
        return self._units

    def by(self, lanes: int, shift: int) -> int:
        """What those of the lanes touch, as a set of units."""
        units, masks = self.units(shift)
        return _set(units[masks & lanes != 0])

    def others(self, lanes: int, later: Touch, writes: bool, shift: int) -> Any:
        """The units that one of ``lanes`` touches here, and another lane of the warp in ``later``.

        ``writes``: whether this one writes. Where all lanes store the same in one place, each finds there what it
        stored itself.
        """
        if writes and self.alike and not later.lanes & ~self.lanes and (not later.alike or later.lanes == self.lanes):
            return _NOTHING
        if self._each_its_own(later, shift):
            return _NOTHING
        (units, masks), (more, those) = self.units(shift), later.units(shift)
        common, mine, its = np.intersect1d(units, more, assume_unique=True, return_indices=True)
        earlier = masks[mine] & lanes
        either = earlier | those[its]
        return common[(earlier != 0) & (either & (either - 1) != 0)]

    def _each_its_own(self, later: Touch, shift: int) -> bool:
        """Whether each lane touches both times the same, and no other lane any of it: as most programs do."""
        if self.alike or later.alike or self.collective or later.collective or self.lanes != later.lanes:
            return False
        if self.size != later.size or (self.offsets != later.offsets).any():
            return False
        return bool((self.offsets[1:] - self.offsets[:-1] >= max(self.size, 1 << shift)).all())


class Touches:
    """Which lanes of a warp touched which units, in many ops. ``lanes``: all of them.

    They are told apart only when somebody asks: most ops come to places where their warp has not been.
    """

    __slots__ = ("_alike", "_apart", "_coming", "_masks", "_seen", "lanes")

    def __init__(self) -> None:
        self.lanes = 0
        self._seen: set[Touch] = set()
        self._coming: list[Touch] = []
        self._masks: dict[int, int] = {}
        self._alike: dict[int, set[int]] = {}
        self._apart: set[tuple[Touch, int, bool]] = set()  # what `others` found nothing for

    def add(self, touch: Touch, shift: int) -> None:
        self.lanes |= touch.lanes
        if touch in self._seen or len(self._masks) > _MOST_UNITS:
            return
        self._seen.add(touch)
        self._coming.append(touch)
        if len(self._coming) > _MOST_COMING:
            self._tell_apart(shift)

    def _tell_apart(self, shift: int) -> None:
        if not self._coming:
            return
        self._apart.clear()
        for touch in self._coming:
            units, masks = touch.units(shift)
            for unit, mask in zip(units.tolist(), masks.tolist(), strict=True):
                if touch.alike:
                    self._alike.setdefault(unit, set()).add(mask)
                else:
                    self._masks[unit] = self._masks.get(unit, 0) | mask
        self._coming.clear()

    def meet(self, later: Touch, lanes: int, shift: int) -> bool:
        """Whether one of ``lanes`` touched what any touches in ``later``."""
        self._tell_apart(shift)
        units = later.units(shift)[0].tolist()
        return any(self._masks.get(unit, 0) & lanes for unit in units) or any(
            mask & lanes for unit in units for mask in self._alike.get(unit, ())
        )

    def others(self, lanes: int, later: Touch, writes: bool, shift: int) -> bool:
        """Whether there is anything that `Touch.others` gives of one of these."""
        self._tell_apart(shift)
        if (later, lanes, writes) in self._apart:
            return False
        units, masks = later.units(shift)
        for unit, those in zip(units.tolist(), masks.tolist(), strict=True):
            earlier = self._masks.get(unit, 0) & lanes
            if earlier and (earlier | those) & (earlier | those) - 1:
                return True
            for mask in self._alike.get(unit, ()):
                earlier = mask & lanes
                same = writes and not later.lanes & ~mask and (not later.alike or later.lanes == mask)
                if earlier and not same and (earlier | those) & (earlier | those) - 1:
                    return True
        self._apart.add((later, lanes, writes))
        return False


_MOST_COMING = 1 << 10
_MOST_UNITS = 1 << 18
"""Of one access; of what lies beyond nothing is said of single lanes."""


def _set(units: Any) -> int:
    found = 0
    for unit in units.tolist():
        found |= 1 << unit
    return found


class Record:
    """Bytes that one actor read or wrote in one epoch. ``parts``: which access touched which, for the report.
    ``touches``: which lanes did, of an ordinary access, and what each touched."""

    __slots__ = ("actor", "epoch", "fresh", "hi", "is_atomic", "is_generic", "lo", "mask", "parts", "touches")

    def __init__(self, actor: int, epoch: int, span: Span, access: Access, touch: Touch | None) -> None:
        self.actor, self.epoch = actor, epoch
        self.mask, self.lo, self.hi = span
        self.is_atomic = access.kind == "atomic"
        self.is_generic = self.is_atomic or access.kind == "generic"
        self.parts = [(self.mask, access)]
        self.touches = None if touch is None else {touch: self.mask}
        self.fresh = 0  # what was read before anything was written there

    def extend(self, span: Span, access: Access, touch: Touch | None) -> None:
        mask, lo, hi = span
        self.mask |= mask
        self.lo, self.hi = min(self.lo, lo), max(self.hi, hi)
        if touch is not None and self.touches is not None:
            self.touches[touch] = mask
        last = self.parts[-1][1]
        if (last.where, last.what, last.domain) != (access.where, access.what, access.domain):
            self.parts.append((mask, access))
        else:
            self.parts[-1] = (self.parts[-1][0] | mask, self.parts[-1][1])

    def access(self, common: int) -> Access:
        return next((access for mask, access in reversed(self.parts) if mask & common), self.parts[0][1])

    def by(self, lanes: int, shift: int) -> int:
        """What those lanes touched."""
        if self.touches is None or not lanes:
            return self.mask if lanes else 0
        found = 0
        for touch in self.touches:
            found |= touch.by(lanes, shift)
        return found & self.mask

    def others(self, lanes: int, later: Touch, writes: bool, shift: int, common: int) -> int:
        """See `Touch.others`; of the units in ``common``."""
        found = 0
        for touch, mask in (self.touches or {}).items():
            if mask & common:
                found |= _set(touch.others(lanes, later, writes, shift))
        return found & common
