"""Who has seen what: vector clocks.

Every actor of a cluster has a number: warps, and channels for what runs beside them (each warp's wgmmas, its bulk
stores, the copies that complete on one mbarrier). A warp has two clocks: ``generic`` says which accesses come before
its ordinary ones, ``proxy`` which *ordinary* accesses come before the async ones that it issues; fence.proxy.async
raises the second to the first (PTX ISA, "Memory Consistency Model", "Async proxy").

Two things most kernels never need, and which are None until they do: ``beyond`` is to global memory what ``proxy`` is
to shared memory; ``far`` is what is known of other clusters (through atomics, and of the grid before this one).
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Clocks:
    """Numbers the actors of one cluster. ``size`` is the most that there can be; ``cluster``: its number."""

    def __init__(self, warps: int, mbarriers: int, cluster: int = 0) -> None:
        self.warps, self.cluster = warps, cluster
        self._first_channel = 4 * warps
        self.size = self._first_channel + mbarriers + 1
        self._next = self._first_channel

    def zero(self) -> Any:
        return np.zeros(self.size, np.int64)

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


class _Knowledge:
    """``far``: other clusters' (generic, beyond) clocks by cluster number."""

    __slots__ = ("beyond", "far", "generic", "proxy")

    def __init__(self, generic: Any, proxy: Any) -> None:
        self.generic, self.proxy = generic, proxy
        self.beyond: Any = None
        self.far: dict[int, tuple[Any, Any]] | None = None

    def join(self, other: _Knowledge) -> None:
        """Know what another of the same cluster knows, too."""
        np.maximum(self.generic, other.generic, out=self.generic)
        np.maximum(self.proxy, other.proxy, out=self.proxy)
        if other.beyond is not None:
            self.beyond = other.beyond.copy() if self.beyond is None else np.maximum(self.beyond, other.beyond)
        if other.far is not None:
            for cluster, (generic, beyond) in other.far.items():
                self.learn(cluster, generic, beyond)

    def learn(self, cluster: int, generic: Any, beyond: Any) -> None:
        """Know this of another cluster. The arrays are shared, and never written."""
        if self.far is None:
            self.far = {}
        if cluster in self.far:
            known, fenced = self.far[cluster]
            generic = np.maximum(known, generic)
            beyond = fenced if beyond is None else beyond if fenced is None else np.maximum(fenced, beyond)
        self.far[cluster] = (generic, beyond)


class Clock(_Knowledge):
    """One warp's clocks. ``epoch``: the number of its accesses from now on; number 1 is that it has begun."""

    __slots__ = ("actor", "cluster", "epoch", "fenced", "observed")

    def __init__(self, clocks: Clocks, actor: int) -> None:
        super().__init__(clocks.zero(), clocks.zero())
        self.actor, self.cluster, self.epoch = actor, clocks.cluster, 2
        self.generic[actor] = 2
        self.fenced: Any = None  # of `atomics`: what the last fence released
        self.observed: Any = None  # of `atomics`: what the next fence acquires

    def tick(self) -> None:
        """What comes now is not what others were told about."""
        self.epoch += 1
        self.generic[self.actor] = self.epoch

    def fence_proxy(self, shared: bool = True, beyond: bool = False) -> None:
        """fence.proxy.async of shared memory, of global memory, or of both."""
        if shared:
            np.maximum(self.proxy, self.generic, out=self.proxy)
        if beyond:
            self.beyond = self.generic.copy()
            for cluster, (generic, _) in (self.far or {}).items():
                self.far[cluster] = (generic, generic)  # type: ignore[index]
        self.tick()

    def sees(self, cluster: int, actor: int, epoch: int, fenced: bool) -> bool:
        """Whether an access is ordered before what this warp does now; ``fenced``: before its async global accesses."""
        if cluster == self.cluster:
            known = self.beyond if fenced else self.generic
        else:
            known = (self.far or {}).get(cluster, (None, None))[1 if fenced else 0]
        return known is not None and epoch <= known[actor]


class Edge(_Knowledge):
    """What a barrier passes on: the clocks of those who arrived."""

    __slots__ = ("_warps",)

    def __init__(self, clocks: Clocks) -> None:
        super().__init__(clocks.zero(), clocks.zero())
        self._warps = clocks.warps

    def add_async(self, clock: Clock) -> None:
        """A relaxed arrival: it orders no ordinary access, but what the warp has waited for is over (wgmmas that read,
        copies that came, bulk stores that read)."""
        channels = slice(self._warps, 3 * self._warps)
        np.maximum(self.generic[channels], clock.generic[channels], out=self.generic[channels])
        channels = slice(4 * self._warps, None)
        np.maximum(self.generic[channels], clock.generic[channels], out=self.generic[channels])

    def add_beginning(self, clock: Clock) -> None:
        """A relaxed arrival at the cluster's barrier: it tells that the warp has begun, and of no access."""
        self.generic[clock.actor] = max(self.generic[clock.actor], 1)

    def add(self, clock: Clock) -> None:
        """Release: ``clock``'s warp arrives."""
        self.join(clock)
        clock.tick()

    merge = _Knowledge.join
