"""The machine: warps as coroutines, blocks, clusters, and the scheduler that runs them.

A warp runs until it waits. When none can run, one asynchronous event (a copy) happens; when there is none, the next
cluster of the grid starts; when there is none either, it is a deadlock.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import memory, report
from nvdsl.sim.barriers import ClusterBarrier, Mbarrier, NamedBarrier, RegisterPool
from nvdsl.sim.clocks import Clock, Clocks
from nvdsl.sim.lanes import Lanes
from nvdsl.sim.layouts import Layouts
from nvdsl.sim.memory import Bytes, GlobalMemory
from nvdsl.sim.options import Options
from nvdsl.sim.shadow import Shadow
from nvdsl.sim.values import LANES

Dim3 = tuple[int, int, int]

RESIDENT_BLOCKS = 132
"""Blocks that run at a time where one waits for another: the SMs of an H200."""


class Waiting:
    """Why a warp waits. ``ready`` tells whether it may go on; ``spins``: it polls, and may always go on; ``barrier``:
    the mbarrier or named barrier, where it waits for one."""

    __slots__ = ("_describe", "barrier", "hint", "ready", "spins", "where")

    def __init__(
        self,
        ready: Callable[[], bool],
        describe: Callable[[], str] | str,
        where: Where | None,
        hint: Callable[[], str] | None = None,
        spins: bool = False,
        barrier: Any = None,
    ) -> None:
        self.ready, self._describe, self.where, self.hint, self.spins = ready, describe, where, hint, spins
        self.barrier = barrier

    def describe(self) -> str:
        return self._describe if isinstance(self._describe, str) else self._describe()


class Warp:
    """One warp: its frame of values (``frame[0]`` is the warp), its active lanes, its clock, what it has in flight."""

    def __init__(self, block: Block, index: int, actor: int, code: Any) -> None:
        self.block, self.index, self.machine = block, index, block.machine
        self.name = f"warp {index}" if block.machine.single else f"warp {index} of block {block.at}"
        self.clock = Clock(block.cluster.clocks, actor)
        threads = block.machine.threads
        self.count = min(LANES, threads - LANES * index)
        self.launched = np.arange(LANES) < self.count
        self.set_mask(self.launched)
        linear = LANES * index + np.arange(LANES)
        self.lane = np.arange(LANES, dtype=np.int32)
        x, y, _ = block.machine.block_dim
        self.tid = tuple(
            int(a[0]) if (a == a[0]).all() else a.astype(np.int64)
            for a in (linear % x, linear // x % y, linear // (x * y))
        )
        self.mma: Any = None
        self.bulk: Any = None
        self.record: Any = None  # a `recorders.WarpRecorder` where somebody records
        self.init_fence = 0  # fence.mbarrier_init: the epoch up to which its inits are fenced
        self.inits: dict[int, int] = {}  # the same of others, as the cluster's barrier told
        self.cluster_phase: int | None = None  # of the cluster's barrier: at which it has arrived and not waited
        self.fence_time = 0  # of its last fence of the threads' accesses: see `atomics`
        self.meet()
        self.registers = block.pool.start
        self.waiting: Waiting | None = None
        self.done = False
        self.frame = code.frame(self)
        self.running = code.run(self.frame)

    def set_mask(self, mask: Any) -> None:
        """Make these lanes active. ``active``: their indices, None when all 32 are."""
        self.mask = mask
        self.active = None if mask.all() else np.flatnonzero(mask)

    def active_lanes(self) -> Any:
        return range(LANES) if self.active is None else self.active.tolist()

    def meet(self) -> None:
        """The lanes know of each other's accesses: see `lanes`."""
        self.stamp = next(self.machine.stamps)

    def converged(self) -> bool:
        return self.active is None or len(self.active) == self.count

    def resume(self) -> None:
        self.waiting = None
        try:
            self.waiting = next(self.running)
        except StopIteration:
            self.done = True


class Block:
    """A thread block: its shared memory, its barriers, its warps."""

    def __init__(self, cluster: Cluster, rank: int, at: Dim3) -> None:
        self.cluster, self.machine, self.rank, self.index = cluster, cluster.machine, rank, at
        dims = 3 if at[2] else 2 if at[1] or self.machine.grid[1] > 1 else 1
        self.at = at[0] if dims == 1 else at[:dims]
        size = memory.SHARED_BASE + self.machine.code.smem_bytes
        self.smem = Bytes(0, size, "shared memory", memory.SHARED_BASE, fill=0xFF)
        self.shadow = Shadow(self.machine.code.unit_shift, memory.SHARED_BASE)
        self.smem.shadow = self.shadow
        self.lanes = Lanes(size, self.shadow.shift)
        self.layouts = Layouts(size)
        self.mbarriers: dict[int, Mbarrier] = {}
        self.named: dict[int, NamedBarrier] = {}
        self.pool = RegisterPool(self.machine.threads)
        self.warpgroups: dict[int, Any] = {}
        self.visits: dict[int, Any] = {}  # by actor of another block: the last epoch in which it came here, name, line
        self.in_flight = 0
        self.record: Any = None  # a `recording.BlockRecord`
        warps = -(-self.machine.threads // LANES)
        self.warps = [Warp(self, i, rank * warps + i, self.machine.code) for i in range(warps)]

    @property
    def name(self) -> str:
        return f"block {self.at}"

    def visited(self, w: Any, at: Where | None) -> None:
        """A warp of another block arrives or accesses shared memory here."""
        if self.machine.checks and not any(w.clock.generic[warp.clock.actor] for warp in self.warps):
            raise report.error(
                "unstarted-block",
                f"{w.name} comes to the shared memory of {self.name}, and nothing says that this one has begun",
                at,
                "a block's shared memory is there once it has begun (CUDA programming guide, Distributed shared "
                "memory)",
                "nv.cluster_sync() before it",
            )
        self.visits[w.clock.actor] = w.clock.epoch, w.name, at

    def named_barrier(self, number: int) -> NamedBarrier:
        found = self.named.get(number)
        if found is None:
            name = "the block's barrier" if number == 0 else f"named barrier {number}"
            found = self.named[number] = NamedBarrier(name, self.cluster.clocks)
        return found


class Cluster:
    """The blocks that run together; one block where the launch has no clusters."""

    def __init__(self, machine: Machine, number: int, blocks: list[Dim3]) -> None:
        self.machine, self.number = machine, number
        warps = len(blocks) * -(-machine.threads // LANES)
        self.clocks = Clocks(warps, len(blocks) * machine.code.mbarriers + 1, number)
        self.barrier = ClusterBarrier(warps, self.clocks)
        self.blocks = [Block(self, rank, at) for rank, at in enumerate(blocks)]
        self.warps = [warp for block in self.blocks for warp in block.warps]
        if machine.recorder is not None:
            machine.recorder.cluster(self)


class Machine:
    """One launch. ``events``: copies under way, each with ``deliver()``. ``code``: see `decode.Code`."""

    def __init__(
        self, code: Any, arguments: list[Any], gmem: GlobalMemory, options: Options,
        grid: Dim3, block: Dim3, cluster: Dim3,
    ) -> None:  # fmt: skip
        self.code, self.arguments, self.gmem, self.options = code, arguments, gmem, options
        self.recorder: Any = None
        self.progress: Any = None
        self.grid, self.block_dim, self.cluster_dim = grid, block, cluster
        self.threads = block[0] * block[1] * block[2]
        self.single = grid == (1, 1, 1)
        self.random = random.Random(options.seed)
        self.eager = options.delivery == "eager"
        self.checks = options.checks
        self.events: list[Any] = []
        self.stamps = itertools.count(1)
        self.clock_reads = 0
        self.stale: list[Any] = []  # of `atomics`
        self.waited = False  # for the launch before

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self._run()

    def _clusters(self) -> Iterator[Cluster]:
        (gx, gy, gz), (cx, cy, cz) = self.grid, self.cluster_dim
        number = 0
        for z in range(0, gz, cz):
            for y in range(0, gy, cy):
                for x in range(0, gx, cx):
                    blocks = [
                        (x + i, y + j, z + k) for k in range(cz) for j in range(cy) for i in range(cx)
                    ]
                    yield Cluster(self, number, blocks)
                    number += 1

    def _run(self) -> None:
        coming = self._clusters()
        resident = [next(coming)]
        most = max(RESIDENT_BLOCKS // len(resident[0].blocks), 1)
        spins = 0
        while resident:
            if self.progress is not None:
                self.progress.tick()
            if self._round(resident):
                spins = 0
            elif self.events:
                self._deliver()
                spins = 0
            else:
                following = next(coming, None) if len(resident) < most else None
                if following is not None:
                    resident.append(following)
                elif any(w.waiting is not None and w.waiting.spins for c in resident for w in c.warps):
                    spins += 1
                    if spins > self.options.steps:
                        self._stuck(resident)
                    self._round(resident, spinning=True)
                else:
                    self._stuck(resident)
            for cluster in [c for c in resident if all(w.done for w in c.warps)]:
                resident.remove(cluster)
                self._finish(cluster)
                if self.progress is not None:
                    self.progress.finished(len(cluster.blocks))
                following = next(coming, None) if not resident else None
                if following is not None:
                    resident.append(following)

    def _round(self, resident: list[Cluster], spinning: bool = False) -> bool:
        """Let every warp that may run do so, once."""
        warps = [w for cluster in resident for w in cluster.warps if not w.done]
        order = self.options.order
        if order == "reverse":
            warps.reverse()
        elif order == "random":
            self.random.shuffle(warps)
        ran = False
        for warp in warps:
            waiting = warp.waiting
            if waiting is None or (waiting.spins and spinning) or waiting.ready():
                warp.resume()
                ran = ran or warp.waiting is None or not warp.waiting.spins
                if self.options.delivery == "random" and self.events and self.random.random() < 0.3:
                    self._deliver()
        return ran

    def _deliver(self) -> None:
        i = self.random.randrange(len(self.events)) if self.options.delivery == "random" else 0
        self.events.pop(i).deliver()
        if self.progress is not None:
            self.progress.events += 1

    def shows_old(self) -> bool:
        """Whether a load that may read an old value does."""
        return not self.eager and (self.options.delivery == "late" or self.random.random() < 0.5)

    def read_clock(self) -> int:
        """What a clock shows: nothing here takes time, but a later read is a later time."""
        self.clock_reads += 1
        return self.clock_reads

    def issue(self, event: Any) -> None:
        """Something asynchronous begins."""
        if self.eager:
            event.deliver()
        else:
            self.events.append(event)

    def _stuck(self, resident: list[Cluster]) -> None:
        blocked = [(w.name, w.waiting) for c in resident for w in c.warps if w.waiting is not None]
        hints = [w.hint() for _, w in blocked if w.hint is not None]
        finished = sum(w.done for c in resident for w in c.warps)
        if finished:
            hints.append(f"{finished} warp{'s have' if finished > 1 else ' has'} already returned from the kernel")
        raise report.deadlock(blocked, hints)

    def _finish(self, cluster: Cluster) -> None:
        if self.checks:
            for block in cluster.blocks:
                self.code.check_exit(block)
        while mine := [e for e in self.events if e.cluster is cluster]:  # what is delivered may have more to do
            self.events = [e for e in self.events if e.cluster is not cluster]
            for event in mine:
                event.deliver()
