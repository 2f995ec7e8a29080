"""The lanes of a warp, and what each of them knows.

Lanes are threads: what one of them releases, acquires, fences or waits for is its own. Most of the time all lanes of a
warp know the same and share a `clocks.Clock`; one that learns something alone leaves with a clock of its own, until the
lanes meet: at bar.warp.sync or a barrier, which order the accesses of those who come (PTX ISA, ``bar.warp.sync``,
``barrier``), and at shuffles and votes, which wait for all their lanes. (By the letter these order no memory.)

``epoch`` numbers the accesses of the warp. ``touched``: lanes that made one since all met last. A release by lanes
that are not all of those tells of theirs alone. ``noted``: accesses of global memory since then (`histories.Touch`).
``accesses``: how many instructions accessed memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim.clocks import ALL_LANES, Clock, Clocks, Edge, Known, Part, _Knowledge, joined
from nvdsl.sim.values import LANES

_EVERYONE = np.ones(LANES, np.bool_)
_masks: dict[bytes, tuple[Any, int]] = {_EVERYONE.tobytes(): (None, ALL_LANES)}


def indices(mask: Any) -> tuple[Any, int]:
    """(the indices of the lanes of a mask, None when it is all of them; the mask bit by bit)."""
    key = mask.tobytes()
    found = _masks.get(key)
    if found is None:
        if len(_masks) > 1 << 14:
            _masks.clear()
            _masks[_EVERYONE.tobytes()] = None, ALL_LANES
        bits = int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")
        found = _masks[key] = (None if bits == ALL_LANES else np.flatnonzero(mask)), bits
    return found


def mask_of(bits: int) -> Any:
    """A mask out of its bits."""
    return np.unpackbits(np.frombuffer(bits.to_bytes(4, "little"), np.uint8), bitorder="little").view(np.bool_)


def names(bits: int) -> str:
    """Lanes in words: ``lane 0``, ``lanes 1-31``."""
    lanes = np.flatnonzero(mask_of(bits))
    runs = np.split(lanes, np.flatnonzero(np.diff(lanes) != 1) + 1)
    shown = [str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs[:4]]
    return ("lane " if len(lanes) == 1 else "lanes ") + ", ".join(shown) + (", ..." if len(runs) > 4 else "")


class Lanes:
    """The lanes of one warp: which are active, and their clocks. ``clock``: that of the active ones, where they have
    one; `apart` makes it so. ``launched``: mask of those that exist, ``everyone``: bit by bit."""

    def __init__(self, clocks: Clocks, actor: int, launched: Any) -> None:
        self.launched = launched
        self.everyone = indices(launched)[1]
        self.actor, self.epoch, self.touched, self.accesses = actor, 2, 0, 0
        self.noted: list[Any] = []
        self._told_alone = False
        self.clock = Clock(clocks, actor, self.everyone)
        self.clocks = [self.clock]
        self.set_mask(launched)

    # --- which are active

    def set_mask(self, mask: Any) -> None:
        """Make these lanes active. ``active``: their indices, None when all 32 are; ``bits``: bit by bit."""
        self.mask = mask
        self.active, self.bits = indices(mask)
        if len(self.clocks) > 1:
            self._choose()

    def _choose(self) -> None:
        for clock in self.clocks:
            if clock.lanes & self.bits:
                self.clock = clock
                return

    def active_lanes(self) -> Any:
        return range(LANES) if self.active is None else self.active.tolist()

    def converged(self) -> bool:
        return self.bits == self.everyone

    @property
    def agree(self) -> bool:
        """Whether the active lanes have one clock."""
        return len(self.clocks) == 1 or not self.bits & ~self.clock.lanes

    def apart(self) -> Iterator[None]:
        """Once for each clock that active lanes have, with the lanes of that one active."""
        if self.agree:
            yield
            return
        outer, bits = self.mask, self.bits
        for clock in list(self.clocks):
            if clock.lanes & bits:
                self.set_mask(mask_of(clock.lanes & bits))
                yield
        self.set_mask(outer)

    def of_lane(self, lane: int) -> Clock:
        """One lane's clock."""
        return next(clock for clock in self.clocks if clock.lanes >> lane & 1)

    # --- what they learn

    def alone(self) -> Clock:
        """The clock of the active lanes, which have one, and of no others: these are about to learn something."""
        clock = self.clock
        if clock.lanes & ~self.bits:
            clock = self.clock = clock.part_of(self.bits & clock.lanes)
            self.clocks.append(clock)
        return clock

    def acquire(self, edge: _Knowledge) -> None:
        """The active lanes learn what a barrier passes on."""
        if len(self.clocks) == 1 and self.bits == self.everyone:
            self.clock.join(edge)
            return
        for _ in self.apart():
            self.alone().join(edge)

    def learn(self, over: list[tuple[int, int]]) -> None:
        """The active lanes learn that what runs beside the warp is over: (channel, up to which epoch)."""
        for _ in self.apart():
            upto = self.alone().generic.upto
            for channel, epoch in over:
                upto[channel] = max(upto[channel], epoch)

    def release(self, edge: Edge, what: str, where: Where | None) -> None:
        """Tell a barrier what the active lanes know and did."""
        if len(self.clocks) == 1:
            edge.join(self.clock)
        else:
            for _ in self.apart():
                edge.join(self.clock)
        self.tell(edge.generic, what, where)
        if edge.after is not None:
            edge.after[self.actor] = self.epoch
        self.epoch += 1

    def tell(self, known: Known, what: str, where: Where | None) -> None:
        """Add the active lanes' own accesses."""
        if self.touched & ~self.bits:
            self._told_alone = True
            epochs = np.where(self.mask, self.epoch, 0)
            known.join_lanes(self.actor, Part(epochs, what, where))
        else:
            known.know(self.actor, self.epoch)

    def own_part(self, known: Known, what: str, where: Where | None) -> Known:
        """What was known after an access of the warp, without what others than the active lanes did since all met."""
        epoch, met = known.upto[self.actor], self.clock.generic.upto[self.actor]
        if epoch <= met:
            return known
        made, self._told_alone = known.copy(), True
        made.upto[self.actor] = met
        made.join_lanes(self.actor, Part(np.where(self.mask, epoch, 0), what, where))
        return made

    def known(self, what: str, where: Where | None) -> Known:
        """What the active lanes, which have one clock, know, with what they did."""
        made = self.clock.generic.copy()
        self.tell(made, what, where)
        return made

    def fence_proxy(self, blocks: range, beyond: bool, where: Where | None) -> None:
        """fence.proxy.async of the shared memory of some blocks of the cluster, and of global memory: what the active
        lanes know, and did."""
        for _ in self.apart():
            known, clock = self.known("fence.proxy.async", where), self.alone()
            for rank in blocks:
                clock.proxy.join_at(rank * len(known.upto), known)
            if beyond:
                clock.beyond = joined(clock.beyond, known)
                for cluster, (generic, _) in (clock.far or {}).items():
                    clock.far[cluster] = (generic, generic)  # type: ignore[index]
        self.epoch += 1

    def meet(self, bits: int) -> None:
        """These lanes wait for each other, and know what they did before."""
        bits &= self.everyone
        if not self.touched and len(self.clocks) == 1:
            return
        whole = bits == self.everyone
        if whole and len(self.clocks) == 1:
            self.clock.generic.know(self.actor, self.epoch)
            self.epoch += 1
            self.touched = 0
            self.forget()
            return
        met = [clock for clock in self.clocks if clock.lanes & bits]
        one = met[0] if not met[0].lanes & ~bits else met[0].part_of(bits & met[0].lanes)
        for clock in met:
            if clock is not one:
                one.join(clock)
                clock.lanes &= ~bits
        one.lanes = bits
        self.clocks = [clock for clock in self.clocks if clock is not one and clock.lanes]
        self.clocks.append(one)
        outer = self.mask
        self.mask, self.bits = mask_of(bits), bits
        self.tell(one.generic, "bar.warp.sync", None)
        self.epoch += 1
        self.set_mask(outer)
        if whole:
            self.touched = 0
            self.forget()

    def forget(self) -> None:
        """Nobody will ask any more which lanes made the accesses so far, but for those who know of single ones."""
        if not self._told_alone:
            for touch in self.noted:
                touch.parts = None
        self.noted.clear()
        self._told_alone = False
