"""What became of each slot of a ring: loaded, full, read by wgmma, empty; out of a `recording`.

A ring is a group of mbarriers on which TMA loads completed; slot i is the one of mbarrier i. A *fill* of a slot is the
loads that completed in one phase of its mbarrier.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from nvdsl.errors.records import dataclass
from nvdsl.sim.perfetto import slot_of

if TYPE_CHECKING:
    from nvdsl.sim.recording import BlockRecord, Read, Span


@dataclass
class Fill:
    """One use of a slot, in steps. ``number``: the how manieth fill of the ring (the k-step of a GEMM).

    ``start``: its first load is issued; ``full``: the mbarrier's phase completes; ``readers``: for each lane that
    reads it ("wgmma 0") from when to when; ``after``: the next fill starts, None for the last. ``bytes``: loaded.
    """

    slot: int
    number: int
    start: int
    full: int
    bytes: int
    loads: list[Span]
    readers: dict[str, tuple[int, int]] = field(default_factory=dict)
    after: int | None = None

    @property
    def read_from(self) -> int | None:
        return min((start for start, _ in self.readers.values()), default=None)

    @property
    def end(self) -> int:
        return max([self.full, *(end for _, end in self.readers.values())])


@dataclass
class Ring:
    """``name``: the mbarriers' ("full"). ``fills``: in the order in which they started. ``slots``: how many."""

    name: str
    slots: int
    fills: list[Fill]


def rings(block: BlockRecord) -> list[Ring]:
    """The rings of a block in the order in which they were first filled."""
    loads: dict[str, dict[tuple[int, int], list[Span]]] = {}
    for span in block.spans:
        if span.kind == "load":
            name, slot = base(span.args["mbarrier"]), slot_of(span.args["mbarrier"]) or 0
            loads.setdefault(name, {}).setdefault((slot, span.args["phase"]), []).append(span)
    completed = {(s.name_of_lane, s.args["phase"]): s.end for s in _phases(block)}
    return [_ring(name, fills, completed, block.reads) for name, fills in loads.items()]


def base(mbarrier: str) -> str:
    """The group's name: "full" of "full[2]"."""
    return mbarrier.partition("[")[0]


@dataclass
class _Phase:
    name_of_lane: str
    args: dict
    end: int


def _phases(block: BlockRecord) -> list[_Phase]:
    return [_Phase(span.lane, span.args, span.end) for span in block.spans if span.kind == "phase"]


def _ring(
    name: str, by_phase: dict[tuple[int, int], list[Span]], completed: dict[tuple[str, int], int], reads: list[Read]
) -> Ring:
    fills = []
    for (slot, phase), loads in by_phase.items():
        end = max(span.end for span in loads)
        full = completed.get((loads[0].args["mbarrier"], phase), end)
        fills.append(
            Fill(slot, 0, min(s.start for s in loads), full, sum(s.args["bytes"] for s in loads), loads)
        )
    fills.sort(key=lambda fill: (fill.start, fill.slot))
    last: dict[int, Fill] = {}
    for number, fill in enumerate(fills):
        fill.number = number
        if fill.slot in last:
            last[fill.slot].after = fill.start
        last[fill.slot] = fill
    for fill in fills:
        _read(fill, reads)
    return Ring(name, max(fill.slot for fill in fills) + 1, fills)


def _read(fill: Fill, reads: list[Read]) -> None:
    """Find who reads the fill's bytes before the next one overwrites them."""
    ranges = [(load.args["to"], load.args["to"] + load.args["bytes"]) for load in fill.loads]
    for read in reads:
        in_time = fill.start <= read.time and (fill.after is None or read.time < fill.after)
        if in_time and any(low < read.high and read.low < high for low, high in ranges):
            start, end = fill.readers.get(read.span.lane, (read.time, read.span.end))
            fill.readers[read.span.lane] = min(start, read.time), max(end, read.span.end)
