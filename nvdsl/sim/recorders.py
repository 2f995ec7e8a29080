"""Who takes the recording: one recorder beside each launch, cluster and warp (of what is no warp: `flights`).

The simulator calls them where something happens; where nothing is recorded they are None, and that is all it costs.
See `recording` for what a step is.
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors import Where
from nvdsl.sim.flights import Flight, MbarrierRecorder, WarpgroupRecorder
from nvdsl.sim.memory import SHARED_BASE
from nvdsl.sim.recording import BlockRecord, LaunchRecord, Recording, Span


class LaunchRecorder:
    """Beside a `machine.Machine`."""

    def __init__(self, recording: Recording, kernel: str, machine: Any) -> None:
        options, grid = machine.options, machine.grid
        seed = f", seed {options.seed}" if "random" in (options.delivery, options.order) else ""
        schedule = f"{options.delivery} delivery, {options.order} order{seed}"
        start = max((launch.end for launch in recording.launches), default=0)
        of = grid[0] * grid[1] * grid[2]
        self.record = LaunchRecord(kernel, grid, machine.threads, schedule, of, start)
        self._limit = recording.limit
        self._clusters: list[ClusterRecorder] = []
        recording.launches.append(self.record)

    def cluster(self, cluster: Any) -> None:
        """Record a cluster, all of it, unless the limit is reached."""
        if len(self.record.blocks) < self._limit:
            self._clusters.append(ClusterRecorder(cluster, self.record))

    def close(self) -> None:
        """The launch is over. What is still under way ends here."""
        for cluster in self._clusters:
            cluster.close()


class ClusterRecorder:
    """Beside a `machine.Cluster`. ``meetings``: the steps of its barriers by (barrier, generation)."""

    def __init__(self, cluster: Any, launch: LaunchRecord) -> None:
        self.warps: list[WarpRecorder] = []
        self.flights: dict[int, Flight] = {}
        self.meetings: dict[tuple[int, int], list[int]] = {}
        self.groups: dict[tuple[int, int], WarpgroupRecorder] = {}
        self._last = 0
        for block in cluster.blocks:
            block.record = BlockRecord(block.name, len(block.warps))
            launch.blocks.append(block.record)
            for warp in block.warps:
                warp.record = WarpRecorder(self, block.record, warp)
                self.warps.append(warp.record)

    def delivery(self) -> int:
        """The step of something that happens after all that happened so far."""
        self._last = max(self._last, *(warp.time for warp in self.warps)) + 1
        return self._last

    def close(self) -> None:
        end = self.delivery()
        for warp in self.warps:
            warp.close(end)
        for groups in self.groups.values():
            groups.close(end)
        for flight in list(self.flights.values()):
            flight.close(end, delivered=False)


class WarpRecorder:
    """Beside a `machine.Warp`. ``time``: its next step."""

    def __init__(self, cluster: ClusterRecorder, block: BlockRecord, warp: Any) -> None:
        self.cluster, self.block, self.time = cluster, block, 0
        self._warp, self._lane, self._eager = warp, f"warp {warp.index}", warp.machine.eager

    def did(self, name: str, at: Where | None, **args: Any) -> Span:
        """An operation: one step."""
        span = Span(self._lane, "op", name, self.time, self.time + 1, at, args)
        self.block.spans.append(span)
        self.time += 1
        return span

    def waited(self, name: str, at: Where | None, until: int, **args: Any) -> None:
        """A wait that is over, for something that happened at step ``until``."""
        end = max(self.time + 1, until)
        self.block.spans.append(Span(self._lane, "wait", name, self.time, end, at, args))
        self.time = end

    def close(self, end: int) -> None:
        waiting = self._warp.waiting
        if waiting is not None and not self._warp.done and not waiting.ready():
            self.waited("stuck: " + waiting.describe(), waiting.where, end, over=False)

    # --- mbarriers

    def init(self, barrier: Any, at: Where | None) -> None:
        span = self.did(f"init {barrier.name}", at, arrivals=barrier.count)
        barrier.record = MbarrierRecorder(self.block, barrier, span.end)

    def expect(self, barrier: Any, size: int, at: Where | None) -> None:
        span = self.did(f"expect {barrier.name}", at, bytes=size, phase=barrier.phase)
        barrier.record.expected(size, span.end)

    def arrive(self, barrier: Any, arrivals: int, size: int, at: Where | None) -> None:
        """Before the arrival. ``size``: the bytes that it announces."""
        args = {"bytes": size} if size else {}
        span = self.did(f"arrive {barrier.name}", at, arrivals=arrivals, phase=barrier.phase, **args)
        barrier.record.arrived(arrivals, size, span.end)

    def passed(self, barrier: Any, parity: int, at: Where | None) -> None:
        phase = barrier.phase - 1
        self.waited(f"wait {barrier.name}", at, barrier.record.done, parity=parity, phase=phase)

    # --- barriers of the block and of the cluster

    def meet(self, barrier: Any, generation: int) -> None:
        """Arrive at a barrier."""
        steps = self.cluster.meetings.setdefault((id(barrier), generation), [])
        steps.append(self.time + 1)

    def met(self, barrier: Any, name: str, generation: int, at: Where | None) -> None:
        """Pass it."""
        self.waited(name, at, max(self.cluster.meetings.get((id(barrier), generation), [0])))

    def registers(self, pool: Any, count: int, at: Where | None, blocked: bool) -> None:
        """setmaxnreg; ``blocked``: it had to wait for others to give theirs back."""
        until = max(self.cluster.meetings.get((id(pool), 0), [0])) if blocked else 0
        self.waited(f"setmaxnreg {count}", at, until, registers=count)
        self.cluster.meetings.setdefault((id(pool), 0), []).append(self.time)

    # --- copies

    def load(self, source: Any, at: Where | None, targets: list[Any]) -> Flight:
        """Issue a copy. ``targets``: see `copies.Load`."""
        known = {"bytes": source.bytes, **_coordinates(source)}
        cause = self.did("TMA load", at, mbarrier=targets[0][2].name, **known)
        spans = []
        for block, address, barrier, _ in targets:
            args = {"mbarrier": barrier.name, "phase": barrier.phase, "to": address - SHARED_BASE, **known}
            spans.append(
                (block.record, Span("TMA load", "load", f"load {barrier.name}", cause.end, cause.end, at, args, cause))
            )
        return Flight(self.cluster, spans, [barrier for _, _, barrier, _ in targets], self._eager)

    def store(self, source: Any, at: Where | None, address: int, reduction: str | None) -> Flight:
        name = f"TMA reduce {reduction}" if reduction else "TMA store"
        args = {"bytes": source.bytes, "from": address - SHARED_BASE, **_coordinates(source)}
        cause = self.did(name, at, **args)
        span = Span("TMA store", "store", name, cause.end, cause.end, at, args, cause)
        return Flight(self.cluster, [(self.block, span)], [], self._eager)

    def wait_bulk(self, waited: list[Flight], pending: int, read: bool, at: Where | None) -> None:
        """``read``: only until the sources are read."""
        until = max((flight.read if read else flight.end for flight in waited), default=0)
        self.waited("wait for bulk stores" + (" to read" if read else ""), at, until, pending=pending)

    # --- wgmma

    def wgmma(self, group: int, shape: str, reads: list[tuple[int, int]], at: Where | None) -> None:
        """``reads``: (low, high) bytes of shared memory's window; of one of the four warps, which read the same."""
        self._warpgroup().issued(self, group, shape, reads, at)

    def committed(self, group: int, computed: bool, at: Where | None) -> None:
        self.did(f"commit group {group}", at, group=group)
        if computed:
            self.computed(group)

    def computed(self, group: int) -> None:
        """This warp's part of a group is carried out, before anybody waits for it."""
        self._warpgroup().computed(self, group)

    def retired(self, group: int, warps: list[WarpRecorder], at: Where | None) -> None:
        """This warp waited for the groups up to ``group``. ``warps``: the warpgroup's, which all committed them."""
        self._warpgroup().waited(self, group, warps, at)

    def _warpgroup(self) -> WarpgroupRecorder:
        key = id(self.block), self._warp.index // 4
        found = self.cluster.groups.get(key)
        if found is None:
            found = self.cluster.groups[key] = WarpgroupRecorder(self.block, key[1])
        return found


def _coordinates(source: Any) -> dict[str, Any]:
    coords = getattr(source, "coords", None)
    return {} if coords is None else {"coordinates": list(coords)}
