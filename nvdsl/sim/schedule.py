"""Which warp runs next, and which clusters are there.

A warp runs until it waits. When none can run, one asynchronous event (a copy) happens; when there is none, the next
cluster of the grid starts, if the GPU holds one more; when there is none either, those that poll look again; when
nothing changes any more, it is a deadlock. Clusters start in the order of their numbers, or in that of
`Options.order`: a GPU promises none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.errors import SimError
from nvdsl.hopper import arch
from nvdsl.hopper.occupancy import occupancy, resident_clusters
from nvdsl.sim import report
from nvdsl.sim.machine import Cluster, Machine

_DECIDED_BY_VALUES = frozenset(
    ("assert barrier-count barrier-number cluster-rank deadlock division lanes-store loop-step mbarrier-count "
     "misaligned multicast-mask nanosleep not-uniform out-of-bounds overflow overlap shift waw").split()
)  # fmt: skip
"""Kinds of errors for which an index, an address or a condition that is garbage is enough."""


def run(machine: Machine) -> None:
    """Run the machine's launch to its end. Raises SimError where it can't get there."""
    with np.errstate(all="ignore"):
        Schedule(machine).run()


class Schedule:
    """The run of one launch."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._coming = self._clusters()
        self._resident: list[Cluster] = []
        code, size = machine.code, machine.cluster_dim[0] * machine.cluster_dim[1] * machine.cluster_dim[2]
        registers = arch.launch_registers(machine.threads) if code.sets_registers else 1
        self._blocks_per_sm = max(occupancy(machine.threads, registers, code.smem_bytes).blocks, 1)
        self._most = max(resident_clusters(size, self._blocks_per_sm), 1)
        self._spun = 0

    def run(self) -> None:
        try:
            self._run()
        except SimError as error:
            if error.kind in _DECIDED_BY_VALUES:
                error.details += self._garbage()
            raise

    def _garbage(self) -> tuple[str, ...]:
        """What was read so far that nothing had written: a value that is made of it may be what is wrong."""
        for shadow in (block.shadow for cluster in self._resident for block in cluster.blocks):
            if shadow.uninitialized is not None:
                fresh, access = shadow.uninitialized
                return (f"likely: {access} read {shadow.describe(fresh)}, which nothing had written",)
        return ()

    def _run(self) -> None:
        machine = self._machine
        self._start()
        while self._resident:
            if machine.progress is not None:
                machine.progress.tick()
            if self._round():
                self._spun = 0
            elif machine.events:
                machine.deliver()
                self._spun = 0
            elif not (len(self._resident) < self._most and self._start()):
                self._poll()
            for cluster in [c for c in self._resident if all(w.done for w in c.warps)]:
                for warp in cluster.warps:
                    warp.forget()
                self._finish(cluster)
                if not self._resident:
                    self._start()

    def _clusters(self) -> Iterator[Cluster]:
        (gx, gy, gz), (cx, cy, cz) = self._machine.grid, self._machine.cluster_dim
        nx, ny, nz = gx // cx, gy // cy, gz // cz
        numbers: Any = range(nx * ny * nz)
        if self._machine.options.order == "reverse":
            numbers = reversed(numbers)
        elif self._machine.options.order == "random":
            numbers = list(numbers)
            self._machine.random.shuffle(numbers)
        for number in numbers:
            x, y, z = number % nx * cx, number // nx % ny * cy, number // (nx * ny) * cz
            blocks = [(x + i, y + j, z + k) for k in range(cz) for j in range(cy) for i in range(cx)]
            yield Cluster(self._machine, number, blocks)

    def _start(self) -> bool:
        """The next cluster starts, if there is one."""
        following = next(self._coming, None)
        if following is not None:
            self._resident.append(following)
        return following is not None

    def _round(self, spinning: bool = False) -> bool:
        """Let every warp that may run do so, once."""
        machine = self._machine
        warps = [w for cluster in self._resident for w in cluster.warps if not w.done]
        order = machine.options.order
        if order == "reverse":
            warps.reverse()
        elif order == "random":
            machine.random.shuffle(warps)
        random_delivery = machine.options.delivery == "random"
        ran = False
        for warp in warps:
            waiting = warp.waiting
            if waiting is None or (spinning and self._may_poll(waiting)) or waiting.ready():
                warp.resume()
                if warp.waiting is None or not warp.waiting.spins:
                    ran = True
                elif spinning:
                    self._spun += warp.waiting.turns
                if random_delivery and machine.events and machine.random.random() < 0.3:
                    machine.deliver()
        return ran

    def _may_poll(self, waiting: Any) -> bool:
        return waiting.spins and (waiting.seen is None or waiting.seen != self._machine.changes)

    def _poll(self) -> None:
        """All who poll look again; none where that would be the same, and where they have looked too often."""
        waits = [w.waiting for c in self._resident for w in c.warps if w.waiting is not None]
        if self._spun > self._machine.options.steps or not any(map(self._may_poll, waits)):
            self._stuck()
        if self._round(spinning=True):
            self._spun = 0

    def _stuck(self) -> None:
        warps = [w for c in self._resident for w in c.warps]
        for w in warps:
            if w.waiting is not None and w.waiting.lanes is not None:
                raise w.waiting.lanes.error(w)
        blocked = [(w.name, w.waiting) for w in warps if w.waiting is not None]
        hints = [w.hint() for _, w in blocked if w.hint is not None]
        finished = sum(w.done for w in warps)
        if finished:
            hints.append(f"{finished} warp{'s have' if finished > 1 else ' has'} already returned from the kernel")
        if next(self._coming, None) is not None:
            count, size = len(self._resident), len(self._resident[0].blocks)
            these = f"{count} clusters of {size} blocks" if size > 1 else f"{count} blocks"
            hints.append(
                f"the GPU holds {these} at a time ({self._blocks_per_sm} blocks an SM); the others start when these "
                "return, and these wait"
            )
        raise report.deadlock(blocked, hints)

    def _finish(self, cluster: Cluster) -> None:
        machine = self._machine
        self._resident.remove(cluster)
        if machine.checks:
            for block in cluster.blocks:
                machine.code.check_exit(block)
        while mine := [e for e in machine.events if e.cluster is cluster]:  # what is delivered may have more to do
            machine.events = [e for e in machine.events if e.cluster is not cluster]
            for event in mine:
                event.deliver()
        if machine.progress is not None:
            machine.progress.finished(len(cluster.blocks))
