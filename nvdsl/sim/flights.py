"""Recorders beside what runs on its own, and beside what it completes on: copies, wgmma groups, mbarriers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvdsl.errors import Where
from nvdsl.sim.memory import SHARED_BASE
from nvdsl.sim.recording import BlockRecord, Read, Sample, Span

if TYPE_CHECKING:
    from nvdsl.sim.recorders import ClusterRecorder, WarpRecorder


class Flight:
    """A copy under way. ``spans``: (block, span) of each block that it goes to. ``read``: the step at which a store
    has read its source."""

    def __init__(
        self, cluster: ClusterRecorder, spans: list[tuple[BlockRecord, Span]], barriers: list[Any], eager: bool
    ) -> None:
        self._cluster, self._spans, self._barriers, self._eager = cluster, spans, barriers, eager
        self.read = 0
        cluster.flights[id(self)] = self

    @property
    def end(self) -> int:
        return self._spans[0][1].end

    def took(self) -> None:
        """A store reads its source now."""
        span = self._spans[0][1]
        self.read = span.args["read"] = self._now()

    def _now(self) -> int:
        return self._spans[0][1].start + 1 if self._eager else self._cluster.delivery()

    def delivered(self) -> None:
        """It happens now: before its mbarriers hear of it."""
        time = self._now()
        self.close(time)
        for (_, span), barrier in zip(self._spans, self._barriers, strict=False):
            span.args["phase"] = barrier.phase
            barrier.record.came(span.args["bytes"], time)

    def close(self, time: int, delivered: bool = True) -> None:
        for block, span in self._spans:
            span.end = max(time, span.start + 1)
            if not delivered:
                span.args["delivered"] = False
            block.spans.append(span)
        del self._cluster.flights[id(self)]


class MbarrierRecorder:
    """Beside a `barriers.Mbarrier`. ``done``: the step at which its last phase completed. Steps only grow here:
    what comes from a warp that is behind counts from the last change on."""

    def __init__(self, block: BlockRecord, barrier: Any, time: int) -> None:
        self._block, self._barrier = block, barrier
        self._since = self._last = time
        self.done = self._bytes = self._arrivals = 0
        self._sample(time)

    def _sample(self, time: int, arrivals: int = 0, size: int = 0) -> None:
        """``arrivals`` and ``size``: by which the barrier's own counts are about to shrink (grow, where negative)."""
        self._last = max(self._last, time)
        b = self._barrier
        self._block.samples.append(Sample(b.name, self._last, b.pending - arrivals, b.tx - size))

    def expected(self, size: int, time: int) -> None:
        self._sample(time, size=-size)

    def arrived(self, arrivals: int, size: int, time: int) -> None:
        """``size``: the bytes that the arrival announces."""
        self._arrivals += arrivals
        self._sample(time, arrivals=arrivals, size=-size)

    def came(self, size: int, time: int) -> None:
        self._bytes += size
        self._sample(time, size=size)

    def completed(self) -> None:
        """After a phase has completed."""
        b = self._barrier
        args = {"phase": b.phase - 1, "parity": b.phase - 1 & 1, "arrivals": self._arrivals, "bytes": self._bytes}
        end = max(self._last, self._since + 1)
        self._block.spans.append(Span(b.name, "phase", f"phase {b.phase - 1}", self._since, end, b.where, args))
        self._since = self._last = self.done = end
        self._bytes = self._arrivals = 0
        self._sample(end)


class WarpgroupRecorder:
    """Beside a `wgmma.Warpgroup`: its groups by number, from the first warp's first wgmma to their completion."""

    def __init__(self, block: BlockRecord, number: int) -> None:
        self._block, self._lane = block, f"wgmma {number}"
        self._open: dict[int, Span] = {}
        self._computed: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def issued(
        self, warp: WarpRecorder, group: int, shape: str, reads: list[tuple[int, int]], at: Where | None
    ) -> None:
        start = warp.did(f"wgmma {shape}", at, group=group).start
        span = self._open.get(group)
        if span is None:
            args = {"group": group, "wgmmas": 0}
            span = self._open[group] = Span(self._lane, "wgmma", f"group {group}: {shape}", start, start + 1, at, args)
        span.start = min(span.start, start)
        if reads:
            span.args["wgmmas"] += 1
            self._block.reads += [Read(span, start, low - SHARED_BASE, high - SHARED_BASE) for low, high in reads]

    def computed(self, warp: WarpRecorder, group: int) -> None:
        self._computed[group] = self._computed.get(group, 0) + 1
        if group in self._open:
            self._open[group].end = max(self._open[group].end, warp.time)

    def waited(self, warp: WarpRecorder, group: int, warps: list[WarpRecorder], at: Where | None) -> None:
        for number in [n for n in self._open if n <= group]:
            late = 0 if self._computed.get(number) == 4 else max(w.time for w in warps) + 1
            self._finish(number, late)
        until = max((end for number, end in self._ends.items() if number <= group), default=0)
        warp.waited(f"wait for wgmma group {group}", at, until, group=group)

    def _finish(self, number: int, time: int) -> None:
        span = self._open.pop(number)
        span.end = self._ends[number] = max(span.end, time)
        self._block.spans.append(span)

    def close(self, end: int) -> None:
        for number in list(self._open):
            self._open[number].args["waited"] = False
            self._finish(number, end)
