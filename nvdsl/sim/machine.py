"""The machine: warps as coroutines, blocks, clusters, one launch.

`schedule` says which of them runs when.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.sim import memory, report
from nvdsl.sim.barriers import Mbarrier, RegisterPool
from nvdsl.sim.clocks import Clocks
from nvdsl.sim.lanes import Lanes
from nvdsl.sim.layouts import Layouts
from nvdsl.sim.meetings import ClusterBarrier, NamedBarrier
from nvdsl.sim.memory import Bytes, GlobalMemory
from nvdsl.sim.options import Options
from nvdsl.sim.shadow import Shadow
from nvdsl.sim.values import LANES

Dim3 = tuple[int, int, int]


class Waiting:
    """Why a warp waits. ``ready`` tells whether it may go on; ``barrier``: the mbarrier or named barrier that it waits
    for. ``spins``: it polls, and may go on when no other can: always, or (``seen`` is not None: it would do the
    same again) once `Machine.changes` is not ``seen`` any more. ``turns``: as how many polls it counts.
    ``lanes``: the `parted.Meeting` of lanes of its own warp that it waits for."""

    __slots__ = ("_describe", "barrier", "hint", "lanes", "ready", "seen", "spins", "turns", "where")

    def __init__(
        self,
        ready: Callable[[], bool],
        describe: Callable[[], str] | str,
        where: Where | None,
        hint: Callable[[], str] | None = None,
        spins: bool = False,
        barrier: Any = None,
        seen: int | None = None,
        turns: int = 1,
        lanes: Any = None,
    ) -> None:
        self.ready, self._describe, self.where, self.hint, self.spins = ready, describe, where, hint, spins
        self.barrier, self.seen, self.turns, self.lanes = barrier, seen, turns, lanes

    def describe(self) -> str:
        return self._describe if isinstance(self._describe, str) else self._describe()


_LANE = np.arange(LANES, dtype=np.int32)


class Warp(Lanes):
    """One warp: its frame of values (``frame[0]`` is the warp), its lanes, what it has in flight."""

    def __init__(self, block: Block, index: int, actor: int, code: Any) -> None:
        self.block, self.index, self.machine = block, index, block.machine
        self.name = f"warp {index}" if block.machine.single else f"warp {index} of block {block.at}"
        self.count = min(LANES, block.machine.threads - LANES * index)
        self.tid, launched = block.machine.of_warp(index)
        super().__init__(block.cluster.clocks, actor, launched)
        self.lane = _LANE
        self.meetings: dict[Any, Any] = {}  # of `parted`
        self.locals: dict[int, int] = {}  # of `memref.alloca`, by its result's slot: where all lanes' buffers start
        self.mma: Any = None
        self.undefined: Any = None  # what made undefined values last: `undefined.Undefined`, `undefined.Absent`
        self.moved: dict[Any, Any] = {}  # of `undefined`
        self.now: dict[int, Any] = {}
        self.bulk: Any = None
        self.copying: Any = None  # its cp.async copies: `async_copies.Copying`
        self.record: Any = None  # a `recorders.WarpRecorder` where somebody records
        self.init_fence = 0  # fence.mbarrier_init: the epoch up to which its inits are fenced
        self.inits: dict[int, int] = {}  # the same of others, as the cluster's barrier told
        self.cluster_phase: int | None = None  # of the cluster's barrier: at which it has arrived and not waited
        self.fence_time = 0  # of its last fence of the threads' accesses: see `atomics`
        self.last_wait: tuple[Any, int] | None = None  # of `rounds`: for which mbarrier, its accesses until then
        self.registers = block.pool.start
        self.waiting: Waiting | None = None
        self.done = False
        self.frame = code.frame(self)
        self.running = code.run(self.frame)

    def in_turn(self, offsets: Any) -> list[tuple[int, Any]]:
        """The active lanes, each with its own of ``offsets``, as an atomic takes them: one after the other, in an order
        that no GPU promises."""
        lanes = list(zip(self.active_lanes(), offsets, strict=True))
        if self.machine.options.order == "reverse":
            lanes.reverse()
        elif self.machine.options.order == "random":
            self.machine.random.shuffle(lanes)
        return lanes

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
        owner = f"{self.name}'s " if self.machine.cluster_dim != (1, 1, 1) else ""
        fences = rank * cluster.clocks.size
        self.shadow = Shadow(self.machine.code.unit_shift, memory.SHARED_BASE, owner, fences)
        self.smem.shadow = self.shadow
        self.layouts = Layouts(size, self.machine.code.tiles, self.machine.code.right_operands)
        self.mbarriers: dict[int, Mbarrier] = {}
        self.named: dict[int, NamedBarrier] = {}
        self.pool: RegisterPool = RegisterPool(self.machine.threads)
        self.warpgroups: dict[int, Any] = {}
        self.visits: dict[Any, Any] = {}  # by actor of another block, and barrier: last epoch, lanes, name, at, phase
        self.in_flight = 0
        self.mixed: Any = None  # of `rounds`: the first arrival that may count to another phase
        self.early: Any = None  # of `rounds`: the first wait that may be over before its phase
        self.record: Any = None  # a `recording.BlockRecord`
        warps = -(-self.machine.threads // LANES)
        self.warps = [Warp(self, i, rank * warps + i, self.machine.code) for i in range(warps)]

    @property
    def name(self) -> str:
        return f"block {self.at}"

    def visited(self, w: Any, at: Where | None, *, awaited: bool = False, barrier: Any = None) -> None:
        """A warp of another block arrives or accesses shared memory here. ``awaited``: what it brings completes on an
        mbarrier, for which this block has to wait before it returns anyway (`exits`). ``barrier``: it arrives there,
        which is over when the phase is."""
        if self.machine.checks and not any(w.clock.generic.upto[warp.actor] for warp in self.warps):
            raise report.error(
                "unstarted-block",
                f"{w.name} comes to the shared memory of {self.name}, and nothing says that this one has begun",
                at,
                "a block's shared memory is there once it has begun (CUDA programming guide, Distributed shared "
                "memory)",
                "nv.cluster_sync() before it",
            )
        w.touched |= w.bits
        if not awaited:
            place = None if barrier is None else (barrier.channel, barrier.phase)
            self.visits[w.actor, place and place[0]] = w.epoch, w.bits, w.name, at, place

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
        unordered = len(blocks) > 1 or machine.code.copies_arrive or machine.code.relaxes
        self.clocks = Clocks(warps, len(blocks) * machine.code.mbarriers + 1, number, len(blocks), unordered)
        self.barrier = ClusterBarrier(warps, self.clocks)
        self.blocks = [Block(self, rank, at) for rank, at in enumerate(blocks)]
        self.warps = [warp for block in self.blocks for warp in block.warps]
        if machine.recorder is not None:
            machine.recorder.cluster(self)


class Machine:
    """One launch. ``events``: copies under way, each with ``deliver()``. ``code``: see `nvdsl.sim.code.Code`."""

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
        self.changes = 0  # of what a warp that polls may see
        self.stale: dict[Any, Any] = {}  # of `atomics`
        self.waited = False  # for the launch before
        self._warps: dict[int, tuple[Any, Any]] = {}

    def of_warp(self, index: int) -> tuple[Any, Any]:
        """The same in every block: (x, y, z of its threads, each an int where all are alike; mask of those there)."""
        found = self._warps.get(index)
        if found is None:
            linear = LANES * index + np.arange(LANES)
            x, y, _ = self.block_dim
            tid = tuple(
                int(a[0]) if (a == a[0]).all() else a.astype(np.int64)
                for a in (linear % x, linear // x % y, linear // (x * y))
            )
            found = self._warps[index] = tid, linear < self.threads
        return found

    def deliver(self) -> None:
        """One of the copies under way happens."""
        i = self.random.randrange(len(self.events)) if self.options.delivery == "random" else 0
        self.events.pop(i).deliver()
        self.changes += 1
        if self.progress is not None:
            self.progress.events += 1

    def shows_old(self) -> bool:
        """Whether a load that may read an old value does."""
        return not self.eager and (self.options.delivery == "late" or self.random.random() < 0.5)

    def read_clock(self) -> int:
        """What a clock shows: nothing here takes time, but a later read is a later time."""
        self.clock_reads += 1
        self.changes += 1
        return self.clock_reads

    def issue(self, event: Any) -> None:
        """Something asynchronous begins."""
        self.changes += 1
        if self.eager:
            event.deliver()
        else:
            self.events.append(event)
