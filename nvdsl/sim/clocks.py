"""Who has seen what: vector clocks.

Every actor of a cluster has a number: warps, and channels for what runs beside them (each warp's wgmmas, its bulk
stores, the copies that complete on one mbarrier). The lanes of a warp are threads of their own: lanes that know the
same share a `Clock` (see `lanes`). A clock has two sides: ``generic`` says which accesses come before its lanes'
ordinary ones, ``proxy`` which ordinary accesses a fence.proxy.async has followed, so that async ones see them, too
(PTX ISA, "Memory Consistency Model", "Async proxy").

Two things most kernels never need, and which are None until they do: ``beyond`` is to global memory what ``proxy`` is
to shared memory; ``far`` is what is known of other clusters (through atomics, and of the grid before this one).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim.values import LANES

ALL_LANES = (1 << 32) - 1

_BITS = 1 << np.arange(LANES, dtype=np.int64)


class Clocks:
    """Numbers the actors of one cluster. ``size`` is the most that there can be; ``cluster``: its number; ``blocks``:
    how many it has. ``unordered``: whether something may tell what has happened before, and order no access."""

    def __init__(
        self, warps: int, mbarriers: int, cluster: int = 0, blocks: int = 1, unordered: bool = False
    ) -> None:
        self.warps, self.cluster, self.blocks, self.unordered = warps, cluster, blocks, unordered
        self._first_channel = 4 * warps
        self.size = self._first_channel + mbarriers + 1
        self._next = self._first_channel

    def nothing(self) -> Known:
        return Known(np.zeros(self.size, np.int64))

    def nothing_fenced(self) -> Known:
        """Of each block's shared memory: actor ``a`` has the number ``rank * size + a`` there."""
        return Known(np.zeros(self.blocks * self.size, np.int64))

    def nothing_happened(self) -> Any:
        return np.zeros(self.size, np.int64) if self.unordered else None

    def wgmma(self, warp: int) -> int:
        return self.warps + warp

    def bulk_read(self, warp: int) -> int:
        return 2 * self.warps + warp

    def bulk_write(self, warp: int) -> int:
        return 3 * self.warps + warp

    def channel(self) -> int:
        """A new channel; the last one is shared once there are more than was foreseen."""
        number = min(self._next, self.size - 1)
        self._next += 1
        return number


class Part:
    """What is known of single lanes of a warp: ``epochs`` of each, and who told last: ``what``, at which line. Never
    written."""

    __slots__ = ("epochs", "what", "where")

    def __init__(self, epochs: Any, what: str, where: Where | None) -> None:
        self.epochs, self.what, self.where = epochs, what, where


class Known:
    """Accesses that somebody knows of. ``upto``: by actor, up to which epoch. ``lanes``: warps of which single lanes
    are known further than that; None where there is no such warp."""

    __slots__ = ("lanes", "upto")

    def __init__(self, upto: Any, lanes: dict[int, Part] | None = None) -> None:
        self.upto, self.lanes = upto, lanes

    def copy(self) -> Known:
        return Known(self.upto.copy(), None if self.lanes is None else dict(self.lanes))

    def join(self, other: Known) -> None:
        np.maximum(self.upto, other.upto, out=self.upto)
        if other.lanes is not None:
            for actor, part in other.lanes.items():
                self.join_lanes(actor, part)
        elif self.lanes is not None:
            self._forget()

    def know(self, actor: int, epoch: int) -> None:
        """Know all that an actor did up to an epoch."""
        self.upto[actor] = max(self.upto[actor], epoch)
        if self.lanes is not None:
            self._forget()

    def join_at(self, number: int, other: Known) -> None:
        """Know of actor ``number + a`` what another knows of ``a``."""
        mine = self.upto[number : number + len(other.upto)]
        np.maximum(mine, other.upto, out=mine)
        for actor, part in (other.lanes or {}).items():
            self.join_lanes(number + actor, part)

    def join_lanes(self, actor: int, part: Part) -> None:
        """Know this of a warp's single lanes."""
        if self.lanes is None:
            self.lanes = {}
        old = self.lanes.get(actor)
        if old is not None and old is not part:
            part = Part(np.maximum(old.epochs, part.epochs), part.what, part.where)
        self.lanes[actor] = part
        self._forget()

    def _forget(self) -> None:
        """Drop what is known of all lanes of a warp anyway."""
        for actor, part in list((self.lanes or {}).items()):
            if part.epochs.max() <= self.upto[actor]:
                del self.lanes[actor]  # type: ignore[union-attr]
        self.lanes = self.lanes or None

    def unknown(self, actor: int, epoch: int) -> int:
        """The lanes of a warp (bit by bit) whose accesses in this epoch are not known of."""
        if epoch <= self.upto[actor]:
            return 0
        part = None if self.lanes is None else self.lanes.get(actor)
        return ALL_LANES if part is None else int(_BITS[part.epochs < epoch].sum())

    def part(self, actor: int) -> Part | None:
        return None if self.lanes is None else self.lanes.get(actor)


def joined(a: Known | None, b: Known | None) -> Known | None:
    """Both, as a new one where it takes one; the two are not written."""
    if a is None or b is None or a is b:
        return a if b is None else b
    both = a.copy()
    both.join(b)
    return both


class _Knowledge:
    """``far``: other clusters' (generic, beyond) by cluster number, never written. ``fenced``, ``observed``: what
    relaxed atomics release, and what fences acquire: see `atomics`. ``after``: by actor, what has happened before also
    where only bytes or copies tell of it, which order no access (a multicast comes after its issuer's wait); None where
    nothing tells so, in a cluster of one block whose copies do not arrive at mbarriers."""

    __slots__ = ("after", "beyond", "far", "fenced", "generic", "observed", "proxy")

    def __init__(self, generic: Known, proxy: Known, after: Any) -> None:
        self.generic, self.proxy, self.after = generic, proxy, after
        self.beyond: Known | None = None
        self.far: dict[int, tuple[Known, Known | None]] | None = None
        self.fenced: Any = None
        self.observed: Any = None

    def join(self, other: _Knowledge) -> None:
        """Know what another of the same cluster knows, too."""
        self.generic.join(other.generic)
        self.proxy.join(other.proxy)
        if other.after is not None:
            np.maximum(self.after, other.after, out=self.after)
        if other.beyond is not None:
            self.beyond = joined(self.beyond, other.beyond)
        if other.far is not None:
            for cluster, (generic, beyond) in other.far.items():
                self.learn(cluster, generic, beyond)
        if other.fenced is not None:
            self.fenced = other.fenced if self.fenced is None else self.fenced.with_all(other.fenced)
        if other.observed is not None:
            self.observed = other.observed if self.observed is None else self.observed.with_all(other.observed)

    def learn(self, cluster: int, generic: Known, beyond: Known | None) -> None:
        """Know this of another cluster."""
        if self.far is None:
            self.far = {}
        if cluster in self.far:
            known, fenced = self.far[cluster]
            generic, beyond = joined(known, generic), joined(fenced, beyond)  # type: ignore[assignment]
        self.far[cluster] = (generic, beyond)


class Clock(_Knowledge):
    """What the ``lanes`` (bit by bit) of a warp know. Of accesses of the warp itself: those up to the last time that
    its lanes met; each lane knows its own beyond that."""

    __slots__ = ("actor", "cluster", "lanes")

    def __init__(self, clocks: Clocks, actor: int, lanes: int) -> None:
        super().__init__(clocks.nothing(), clocks.nothing_fenced(), clocks.nothing_happened())
        self.actor, self.cluster, self.lanes = actor, clocks.cluster, lanes
        self.generic.upto[actor] = 1  # it has begun

    def part_of(self, lanes: int) -> Clock:
        """The same for some of the lanes, which leave this one."""
        made = Clock.__new__(Clock)
        _Knowledge.__init__(made, self.generic.copy(), self.proxy.copy(), _copy(self.after))
        made.beyond, made.far = self.beyond, None if self.far is None else dict(self.far)
        made.actor, made.cluster, made.lanes = self.actor, self.cluster, lanes
        made.fenced, made.observed = self.fenced, self.observed
        self.lanes &= ~lanes
        return made

    def before(self, epoch: int) -> Any:
        """What has happened before what these lanes do now, in this epoch of the warp: see ``after``."""
        if self.after is None:
            return None
        found = np.maximum(self.after, self.generic.upto)
        found[self.actor] = epoch
        return found

    def known_of(self, cluster: int, fenced: bool) -> Known | None:
        """The accesses by a cluster's actors that come before what these lanes do now; ``fenced``: before their async
        accesses of global memory."""
        if cluster == self.cluster:
            return self.beyond if fenced else self.generic
        return (self.far or {}).get(cluster, (None, None))[1 if fenced else 0]

    def sees(self, cluster: int, actor: int, epoch: int, fenced: bool) -> bool:
        """Whether all of a warp's accesses in an epoch come before what these lanes do now (see `known_of`)."""
        known = self.known_of(cluster, fenced)
        return known is not None and epoch <= known.upto[actor]


def _copy(array: Any) -> Any:
    return None if array is None else array.copy()


class Edge(_Knowledge):
    """What a barrier passes on: what those know who arrived."""

    __slots__ = ("_warps",)

    def __init__(self, clocks: Clocks) -> None:
        super().__init__(clocks.nothing(), clocks.nothing_fenced(), clocks.nothing_happened())
        self._warps = clocks.warps

    def add_async(self, clock: Clock) -> None:
        """A relaxed arrival: it orders no ordinary access, but what the warp has waited for is over (wgmmas that read,
        copies that came, bulk stores that read)."""
        mine, its = self.generic.upto, clock.generic.upto
        for channels in (slice(self._warps, 3 * self._warps), slice(4 * self._warps, None)):
            np.maximum(mine[channels], its[channels], out=mine[channels])

    def add_beginning(self, clock: Clock) -> None:
        """A relaxed arrival at the cluster's barrier: it tells that the warp has begun, and of no access."""
        self.generic.upto[clock.actor] = max(self.generic.upto[clock.actor], 1)

    def happened(self, before: Any) -> None:
        """This has happened before: see ``after``."""
        if before is not None:
            np.maximum(self.after, before, out=self.after)

    merge = _Knowledge.join
