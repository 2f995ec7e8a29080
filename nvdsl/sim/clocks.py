"""Who has seen what: vector clocks.

Every actor of a cluster has a number: warps, and channels for what runs beside them (each warp's wgmmas, its bulk
stores, the copies that complete on one mbarrier). A warp has two clocks: ``generic`` says which accesses come before
its ordinary ones, ``proxy`` which *ordinary* accesses come before the async ones that it issues; fence.proxy.async
raises the second to the first (PTX ISA, "Memory Consistency Model", "Async proxy").
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Clocks:
    """Numbers the actors of one cluster. ``size`` is the most that there can be."""

    def __init__(self, warps: int, mbarriers: int) -> None:
        self.warps = warps
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


class Clock:
    """One warp's two clocks. ``epoch``: the number of its accesses from now on."""

    __slots__ = ("actor", "epoch", "generic", "proxy")

    def __init__(self, clocks: Clocks, actor: int) -> None:
        self.actor, self.epoch = actor, 1
        self.generic, self.proxy = clocks.zero(), clocks.zero()
        self.generic[actor] = 1

    def tick(self) -> None:
        """What comes now is not what others were told about."""
        self.epoch += 1
        self.generic[self.actor] = self.epoch

    def join(self, generic: Any, proxy: Any) -> None:
        np.maximum(self.generic, generic, out=self.generic)
        np.maximum(self.proxy, proxy, out=self.proxy)

    def fence_proxy(self) -> None:
        np.maximum(self.proxy, self.generic, out=self.proxy)
        self.tick()


class Edge:
    """What a barrier passes on: the clocks of those who arrived."""

    __slots__ = ("generic", "proxy")

    def __init__(self, clocks: Clocks) -> None:
        self.generic, self.proxy = clocks.zero(), clocks.zero()

    def add(self, clock: Clock) -> None:
        """Release: ``clock``'s warp arrives."""
        np.maximum(self.generic, clock.generic, out=self.generic)
        np.maximum(self.proxy, clock.proxy, out=self.proxy)
        clock.tick()

    def merge(self, other: Edge) -> None:
        np.maximum(self.generic, other.generic, out=self.generic)
        np.maximum(self.proxy, other.proxy, out=self.proxy)
