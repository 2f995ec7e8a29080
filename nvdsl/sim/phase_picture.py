"""The phases of mbarriers over time, as SVG: what each phase still needs, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from nvdsl.errors import SimError
from nvdsl.errors.records import dataclass
from nvdsl.layout.draw.steps import NOTE, WIDTH, Axis, label
from nvdsl.layout.draw.svg import GREY, INK, LIGHT, ORANGE, PAPER, RED, Svg
from nvdsl.sim.recording import BlockRecord, LaunchRecord, Recording, Sample, Span

MOST = 8
"""Mbarriers that a picture shows: the first ones."""

PARITY = ("#9ad0f3", "#ffd37f")
"""Fills of the phases of parity 0 and 1."""

TOP, PHASE, NEEDS, WAIT, GAP = 96, 24, 22, 16, 18


@dataclass
class Mbarrier:
    """One mbarrier of a block. ``phases``: those that completed. ``needs``: what the phase under way still needs."""

    name: str
    since: int
    phases: list[Span] = field(default_factory=list)
    needs: list[Sample] = field(default_factory=list)
    waits: list[Span] = field(default_factory=list)

    def intervals(self, end: int) -> Iterator[tuple[int, int, Sample]]:
        """(from, to, what is needed), where that is longer than nothing."""
        for now, later in zip(self.needs, [*self.needs[1:], None], strict=True):
            stop = later.time if later is not None else end
            if stop > now.time:
                yield now.time, stop, now

    @property
    def waiters(self) -> list[str]:
        return sorted({span.lane for span in self.waits}, key=lambda lane: int(lane.rpartition(" ")[2]))


def mbarriers(block: BlockRecord) -> list[Mbarrier]:
    """The mbarriers of a block on which something arrived, in the order of their initialization."""
    found: dict[str, Mbarrier] = {}
    for sample in block.samples:
        found.setdefault(sample.mbarrier, Mbarrier(sample.mbarrier, sample.time)).needs.append(sample)
    for span in block.spans:
        if span.kind == "phase" and span.lane in found:
            found[span.lane].phases.append(span)
        name = span.name.removeprefix("wait ")
        if span.kind == "wait" and name in found:
            found[name].waits.append(span)
    return [one for one in found.values() if len(one.needs) > 1]


def picture(recording: Recording, launch: int = 0, block: int = 0) -> str:
    """The SVG of one block. Raises SimError where no mbarrier was used."""
    for candidate in recording.launches[launch:]:
        for one in candidate.blocks[block:]:
            if found := mbarriers(one):
                return str(_draw(candidate, one, found))
    raise SimError("there are no phases to draw: nothing arrived on an mbarrier", kind="picture")


def _draw(launch: LaunchRecord, block: BlockRecord, found: list[Mbarrier]) -> Svg:
    shown = found[:MOST]
    axis = Axis(block.end, max([104.0, *(8.0 * len(one.name) + 18 for one in shown)]))
    height = TOP + sum(_height(one) for one in shown) + 58
    title = f"{launch.kernel}, {block.name}: phases of its mbarriers"
    svg = Svg(WIDTH, height, title)
    svg.text(16, 28, title, size=17, bold=True)
    more = f" The first {MOST} of {len(found)} mbarriers." if len(found) > MOST else ""
    svg.text(16, 48, f"Simulated: {launch.schedule}. {NOTE}{more}", colour=GREY)
    svg.legend(16, 74, [
        (PARITY[0], GREY, "phase of parity 0"), (PARITY[1], GREY, "phase of parity 1"),
        (PAPER, LIGHT, "what the phase still needs"), (RED, RED, "a warp waits"), (ORANGE, ORANGE, "passes at once"),
    ])  # fmt: skip
    axis.draw(svg, TOP, height - 50)
    y = float(TOP)
    for one in shown:
        _rows(svg, axis, y, one)
        y += _height(one)
    return svg


def _height(one: Mbarrier) -> float:
    return PHASE + NEEDS + WAIT * len(one.waiters) + GAP


def _rows(svg: Svg, axis: Axis, y: float, one: Mbarrier) -> None:
    svg.text(axis.left - 10, y + 16, one.name, anchor="end", mono=True)
    begin = one.since
    for number, end in [*enumerate(span.end for span in one.phases), (len(one.phases), axis.end)]:
        x, stop = axis.x(begin), axis.x(end)
        words = f"phase {number}, parity {number % 2}"
        state = f"completes at {end}" if number < len(one.phases) else "does not complete"
        svg.rect(x, y, stop - x, PHASE, PARITY[number % 2], stroke=GREY, tip=f"{words}: from step {begin}, {state}")
        label(svg, x, stop, y + PHASE / 2, [words, f"phase {number}", str(number)], INK)
        begin = end
    y += PHASE
    svg.text(axis.left - 10, y + 15, "needs", anchor="end", size=11, colour=GREY)
    for start, end, sample in one.intervals(axis.end):
        x, stop = axis.x(start), axis.x(end)
        words = f"{_count(sample.arrivals, 'arrival')}, {sample.bytes:,} bytes"
        svg.rect(x, y + 2, stop - x, NEEDS - 4, PAPER, stroke=LIGHT, tip=f"steps {start} to {end}: {words}")
        short = f"{sample.arrivals} + {sample.bytes:,} B"
        label(svg, x, stop, y + NEEDS / 2, [words, short, f"{sample.bytes:,} B"], INK)
    y += NEEDS
    for lane in one.waiters:
        svg.text(axis.left - 10, y + 12, lane, anchor="end", size=11, colour=GREY)
        for span in one.waits:
            if span.lane == lane:
                _wait(svg, axis, y, span)
        y += WAIT


def _wait(svg: Svg, axis: Axis, y: float, span: Span) -> None:
    x, stop = axis.x(span.start), axis.x(span.end)
    at_once = span.end - span.start <= 1
    words = f"wait(parity={span.args['parity']})"
    svg.rect(x, y + 2, stop - x, WAIT - 4, ORANGE if at_once else RED, radius=1, tip=f"{words}, steps {span.start} to "
             f"{span.end}")  # fmt: skip
    if axis.x(span.end) - x > 6.6 * len(words) + 4:
        label(svg, x, stop, y + WAIT / 2, [words], PAPER)
    else:
        svg.text(stop + 4, y + 12, words, size=10, colour=GREY)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
