"""What warps wait for: mbarriers, named barriers, the cluster's barrier, the block's registers."""

from __future__ import annotations

from typing import Any

from nvdsl import arch
from nvdsl.errors import Where
from nvdsl.sim.clocks import Clocks, Edge
from nvdsl.sim.report import error


class Mbarrier:
    """An initialized mbarrier (PTX ISA, "mbarrier"): ``pending`` arrivals and ``tx`` bytes of phase ``phase``."""

    def __init__(self, name: str, count: int, clocks: Clocks, warp: Any, where: Where | None) -> None:
        self.name, self.count, self.pending, self.tx, self.phase = name, count, count, 0, 0
        self.channel = clocks.channel()
        self.where = where
        self.init_actor, self.init_epoch, self.init_name = warp.clock.actor, warp.clock.epoch, warp.name
        self._arrived, self.done = Edge(clocks), Edge(clocks)
        self._seen: set[int] = {warp.clock.actor}

    def used_by(self, warp: Any, where: Where | None, checks: bool) -> None:
        """Raise unless the init comes before what ``warp`` does now."""
        actor = warp.clock.actor
        if not checks or actor in self._seen:
            return
        if warp.clock.generic[self.init_actor] < self.init_epoch:
            raise error(
                "init-sync",
                f"{warp.name} uses mbarrier {self.name}, and nothing says that {self.init_name} has "
                "initialized it",
                where,
                f"mbarrier.init (at {self.where}) is an ordinary store: other threads see it after a barrier",
                "fence_mbarrier_init() after the init, then nv.sync_threads() (in a cluster nv.cluster_sync())",
            )
        self._seen.add(actor)

    def arrive(self, warp: Any, arrivals: int, where: Where | None) -> None:
        if arrivals > self.pending:
            raise error(
                "over-arrival",
                f"{warp.name} arrives at mbarrier {self.name} ({arrivals} time{'s' if arrivals > 1 else ''}) where "
                "only "
                f"{self.pending} of {self.count} arrivals are pending in phase {self.phase}"
                + (f" (and {self.tx} bytes)" if self.tx else ""),
                where,
                f"init (at {self.where}) said {self.count} arrivals a phase (PTX ISA, mbarrier.arrive)",
                "let one thread arrive (predicate), or initialize the barrier to the number of arrivals",
            )
        self.pending -= arrivals
        self._arrived.add(warp.clock)
        self.complete()

    def expect(self, size: int) -> None:
        self.tx += size

    def complete_tx(self, size: int) -> None:
        self.tx -= size
        self.complete()

    def complete(self) -> None:
        if self.pending or self.tx:
            return
        self.phase += 1
        self.pending = self.count
        self.done.merge(self._arrived)
        self.done.generic[self.channel] = self.phase

    def passed(self, parity: int) -> bool:
        """Whether the phase of this parity has completed: the one under way has the other."""
        return (self.phase & 1) != parity

    def state(self) -> str:
        bytes_ = f" and {self.tx} bytes" if self.tx else ""
        needed = f"{self.pending} of {self.count} arrivals{bytes_}"
        return f"phase {self.phase} (parity {self.phase & 1}) still needs {needed}"

    def hint(self) -> str:
        """The likely cause of a wait that does not end."""
        if self.tx < 0:
            return f"{-self.tx} more bytes were copied to {self.name} than it was told to expect"
        if self.pending and self.tx == 0 and self.pending == self.count and self.phase == 0:
            return f"nobody ever arrives at {self.name}"
        if self.pending:
            return (
                f"{self.count - self.pending} of {self.count} arrivals came to {self.name} in phase {self.phase}: "
                "a missing arrive, or an init count that is too high, or a wait for a phase that is not the next one"
            )
        return f"{self.tx} bytes that {self.name} expects are in no copy: expect_tx says more than the boxes hold"


class NamedBarrier:
    """``barrier.sync id, n``: completes when ``n`` threads have arrived."""

    def __init__(self, name: str, clocks: Clocks) -> None:
        self.name, self._clocks = name, clocks
        self.generation, self.arrived, self.threads = 0, 0, 0
        self._edge, self.done = Edge(clocks), Edge(clocks)
        self._first = ""

    def arrive(self, warp: Any, threads: int, where: Where | None) -> int:
        """One warp arrives; returns the generation to wait for."""
        if self.arrived and threads != self.threads:
            raise error(
                "barrier-count",
                f"{warp.name} names {threads} threads at {self.name}, {self._first} named {self.threads}",
                where,
                "all threads of one barrier name the same number (PTX ISA, barrier)",
                "pass the same count everywhere",
            )
        self.threads = threads
        self._first = self._first if self.arrived else warp.name
        self.arrived += 32 if threads % 32 == 0 else warp.count
        self._edge.add(warp.clock)
        mine = self.generation
        if self.arrived > threads:
            raise error("over-arrival", f"{self.arrived} threads at {self.name} of {threads}", where,
                        "a barrier completes when exactly its threads have arrived (PTX ISA, barrier)")  # fmt: skip
        if self.arrived == threads:
            self.generation += 1
            self.arrived = 0
            self.done, self._edge = self._edge, Edge(self._clocks)
        return mine


class ClusterBarrier:
    """``barrier.cluster``: all warps of the cluster arrive, then may wait."""

    def __init__(self, warps: int, clocks: Clocks) -> None:
        self.warps, self._clocks = warps, clocks
        self.phase, self.arrived = 0, 0
        self._edge, self.done = Edge(clocks), Edge(clocks)

    def arrive(self, warp: Any, relaxed: bool) -> None:
        self.arrived += 1
        if not relaxed:
            self._edge.add(warp.clock)
        if self.arrived == self.warps:
            self.phase += 1
            self.arrived = 0
            self.done.merge(self._edge)


class RegisterPool:
    """The registers of a block (setmaxnreg). ``threads`` start with all of the block's share, in units of 8."""

    def __init__(self, threads: int) -> None:
        share = arch.REGISTERS_PER_SM // max(threads, 1)
        self.start = min(share, arch.MAX_REGISTERS_PER_THREAD) // 8 * 8
        self.free = arch.REGISTERS_PER_SM - self.start * threads
