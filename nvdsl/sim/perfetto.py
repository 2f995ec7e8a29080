"""A recording as a trace of events, in the JSON format that ui.perfetto.dev and chrome://tracing open.

A process for each block, a thread for each lane: warps, copies, wgmma groups, mbarriers. One microsecond is one step of
`recording`'s logical time. Copies under way at the same time share no thread: a lane gets as many as it needs.
Format: "Trace Event Format" (complete events "X", counters "C", flows "s" and "f", metadata "M").
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvdsl.errors import Where

if TYPE_CHECKING:
    from nvdsl.sim.recording import BlockRecord, LaunchRecord, Recording, Span

_NOTE = (
    "Logical time of nvdsl's simulator: one microsecond here is one step, an operation of a warp. It shows what may "
    "happen in which order, not how long it takes on a GPU."
)


def write(recording: Recording, path: str | Path) -> None:
    Path(path).write_text(json.dumps(trace(recording), separators=(",", ":")), encoding="utf-8")


def trace(recording: Recording) -> dict[str, Any]:
    """The whole file as a Python value."""
    events: list[dict[str, Any]] = []
    for number, launch in enumerate(recording.launches):
        for i, block in enumerate(launch.blocks):
            events += _Process(len(recording.launches), number, i, launch, block).events
    launches = [
        {
            "kernel": launch.kernel, "grid": launch.grid, "threads": launch.threads, "schedule": launch.schedule,
            "blocks": launch.of, "recorded": len(launch.blocks), "stopped": launch.stopped,
        }
        for launch in recording.launches
    ]  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"time": _NOTE, "launches": launches}}


class _Process:
    """The events of one block."""

    def __init__(self, launches: int, number: int, index: int, launch: LaunchRecord, block: BlockRecord) -> None:
        self.pid = 100_000 * number + index + 1
        self._start = launch.start
        self.events: list[dict[str, Any]] = []
        prefix = f"{number}: " if launches > 1 else ""
        self._meta("process_name", 0, name=f"{prefix}{launch.kernel} {block.name}")
        self._meta("process_sort_index", 0, sort_index=self.pid)
        self._threads: dict[int, tuple[int, str]] = {}
        self._place(block)
        for span in block.spans:
            self._span(span)
        for sample in block.samples:
            self._add(
                "C", sample.time, 0, f"{sample.mbarrier} needs", {"arrivals": sample.arrivals, "bytes": sample.bytes}
            )

    def _add(self, phase: str, time: int, tid: int, name: str, args: dict[str, Any], **more: Any) -> None:
        self.events.append(
            {"ph": phase, "ts": self._start + time, "pid": self.pid, "tid": tid, "name": name, "args": args, **more}
        )

    def _meta(self, what: str, tid: int, **args: Any) -> None:
        self.events.append({"ph": "M", "pid": self.pid, "tid": tid, "name": what, "args": args})

    def _place(self, block: BlockRecord) -> None:
        """A thread for each span, so that those of one thread follow each other."""
        by_lane: dict[str, list[Span]] = {lane: [] for lane in block.lanes()}
        for span in block.spans:
            by_lane[span.lane].append(span)
        tid = 0
        for lane, spans in by_lane.items():
            ends: list[int] = [0]
            for span in sorted(spans, key=lambda s: (s.start, s.end)):
                free = next((i for i, end in enumerate(ends) if end <= span.start), len(ends))
                ends[free:free + 1] = [span.end]
                self._threads[id(span)] = tid + 1 + free, lane
            for i in range(len(ends)):
                tid += 1
                self._meta("thread_name", tid, name=lane if i == 0 else f"{lane} ({i + 1})")
                self._meta("thread_sort_index", tid, sort_index=tid)

    def _span(self, span: Span) -> None:
        tid, _ = self._threads[id(span)]
        args = {**span.args, **({"line": short(span.where)} if span.where else {})}
        slot = slot_of(span.args.get("mbarrier", span.lane if span.kind == "phase" else span.name))
        if slot is not None:
            args["slot"] = slot
        self._add("X", span.start, tid, span.name, args, dur=span.end - span.start, cat=span.kind)
        if span.cause is not None and id(span.cause) in self._threads:
            flow = {"cat": "issue", "id": self.pid * 1_000_000 + len(self.events)}
            self._add("s", span.cause.start, self._threads[id(span.cause)][0], "issue", {}, **flow)
            self._add("f", span.start, tid, "issue", {}, bp="e", **flow)


def slot_of(name: str) -> int | None:
    """The slot in an mbarrier's name: 2 of "wait full[2]"; None where there is none."""
    found = re.search(r"\[(\d+)\]", name)
    return int(found[1]) if found else None


def short(where: Where) -> str:
    return f"{Path(where.file).name}:{where.line}"
