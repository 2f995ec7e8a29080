"""What happened in a simulation: every warp's operations and waits, copies and wgmma groups from issue to completion,
phases of mbarriers. For traces (`perfetto`) and pictures (`picture`).

**Time is logical: it counts steps, and says nothing about nanoseconds.** Each recorded operation of a warp takes one
step of that warp; all warps of a block start at step 0 and count side by side. Who waits goes on at the step at which
the last thing it waited for had happened. A copy or a wgmma group ends when the simulator carries it out: with late
delivery, one step after everything that could be done without it. Operations between (arithmetic, ordinary loads and
stores) take no step. So the order is one that a GPU may show; lengths are not what it would take.

    with nvdsl.sim.record() as recording:
        gemm(a, b, d, target="sim")
    recording.write_trace("gemm.json")

NVDSL_SIM_TRACE=gemm.json and NVDSL_SIM_PICTURE=slots.svg (or slots.html) do the same for a whole program, when it ends.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import Any

from nvdsl.errors import SimError, Where
from nvdsl.errors.records import dataclass
from nvdsl.mlir.threads import Once

BLOCKS = 16
"""Blocks of each launch that are recorded, unless told otherwise; their events take some 100 KB of a trace each."""


@dataclass(slots=True)
class Span:
    """Something on one lane of a block, from step ``start`` up to ``end``.

    ``kind``: "op" (of a warp, one step), "wait", "load", "store", "wgmma", "phase", "barrier". ``args``: what else is
    known of it; bytes as ``bytes``, mbarriers by name. ``cause``: the op that issued it (a copy).
    """

    lane: str
    kind: str
    name: str
    start: int
    end: int
    where: Where | None
    args: dict[str, Any] = field(default_factory=dict)
    cause: Span | None = None


@dataclass(slots=True)
class Sample:
    """An mbarrier's state from step ``time`` on: arrivals and bytes that its phase still needs."""

    mbarrier: str
    time: int
    arrivals: int
    bytes: int


@dataclass(slots=True)
class Read:
    """A wgmma of group ``span`` reads bytes ``low`` up to ``high`` of the block's shared memory, since ``time``."""

    span: Span
    time: int
    low: int
    high: int


@dataclass
class BlockRecord:
    """``name``: e.g. "block (0, 1)". ``lanes``: in the order in which they are shown."""

    name: str
    warps: int
    spans: list[Span] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    @property
    def end(self) -> int:
        return max((span.end for span in self.spans), default=0)

    def lanes(self) -> list[str]:
        """Warps, then copies, wgmmas, mbarriers, other barriers, each in the order of appearance."""
        rank = {"op": 0, "wait": 0, "load": 1, "store": 1, "wgmma": 2, "phase": 3, "barrier": 4}
        ranks = {f"warp {i}": 0 for i in range(self.warps)}
        for span in self.spans:
            ranks.setdefault(span.lane, rank[span.kind])
        return sorted(ranks, key=lambda lane: (ranks[lane], lane if ranks[lane] else ""))  # warps by number


@dataclass
class LaunchRecord:
    """One launch. ``start``: its first step, where its blocks' step 0 lies. ``blocks``: those recorded, of ``of``.
    ``stopped``: the error that ended it, "" for none."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    schedule: str
    of: int
    start: int
    blocks: list[BlockRecord] = field(default_factory=list)
    stopped: str = ""

    @property
    def end(self) -> int:
        return self.start + max((block.end for block in self.blocks), default=0)


class Recording:
    """The launches of a simulation, in order. ``limit``: the most blocks of each that are recorded."""

    def __init__(self, limit: int = BLOCKS) -> None:
        self.limit = limit
        self.launches: list[LaunchRecord] = []

    def write_trace(self, path: str | Path) -> None:
        """Write a JSON file for ui.perfetto.dev or chrome://tracing: one microsecond there is one step."""
        from nvdsl.sim import perfetto

        perfetto.write(self, path)

    def write_picture(self, path: str | Path, launch: int = 0, block: int = 0) -> None:
        """Write a block's ring slots over time: a page with a slider where ``path`` ends in ``.html``, else an SVG.

        Raises SimError where no TMA load completed on an mbarrier, and for a file of another kind.
        """
        from nvdsl.sim import picture, timeline

        draw = timeline.html if _is_page(path) else picture.picture
        Path(path).write_text(draw(self, launch, block), encoding="utf-8")


def _is_page(picture: str | Path) -> bool:
    suffix = Path(picture).suffix.lower()
    if suffix not in ("", ".svg", ".html"):
        raise SimError(
            f"a picture in {picture}",
            kind="option",
            rule="a picture is an SVG, in a file.svg, or a page, in a file.html",
            fix="name another file (NVDSL_SIM_PICTURE)",
        )
    return suffix == ".html"


_active: ContextVar[Recording | None] = ContextVar("nvdsl_recording", default=None)


@contextmanager
def record(blocks: int = BLOCKS) -> Iterator[Recording]:
    """Record the simulations in this context, up to ``blocks`` blocks of each launch. Innermost context wins. It is
    one thread's: what other threads simulate meanwhile is not recorded."""
    recording, outer = Recording(blocks), _active.get()
    try:
        _active.set(recording)
        yield recording
    finally:
        _active.set(outer)


def current(options: Any) -> Recording | None:
    """Where a launch with these `sim.Options` is recorded; None for nowhere."""
    active = _active.get()
    if active is None and (options.trace or options.picture):
        return _of_programs.make((options.trace, options.picture), lambda: _of_program(options.trace, options.picture))
    return active


_of_programs: Once[Recording] = Once()


def _of_program(trace: str, picture: str) -> Recording:
    """The recording that is written when the program ends, also when an error ends it."""
    for path in filter(None, (trace, picture)):
        if not Path(path).parent.is_dir():
            raise SimError(
                f"{path} can't be written: there is no folder {Path(path).parent}",
                kind="option",
                fix="make the folder, or name another file (NVDSL_SIM_TRACE, NVDSL_SIM_PICTURE)",
            )
    _is_page(picture)
    recording = Recording()
    atexit.register(_write, recording, trace, picture)
    return recording


def _write(recording: Recording, trace: str, picture: str) -> None:
    import sys

    for path, write in ((trace, recording.write_trace), (picture, recording.write_picture)):
        try:
            if path:
                write(path)
        except (OSError, SimError) as error:
            print(f"nvdsl: {path} was not written: {error}", file=sys.stderr)
