"""The slots of a ring over time, as SVG: rows are slots, bars what happens to them, in the steps of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvdsl.errors import SimError
from nvdsl.layout.draw.steps import NOTE, WIDTH, Axis, label
from nvdsl.layout.draw.svg import BLUE, GREEN, GREY, INK, LIGHT, ORANGE, PAPER, PURPLE, RED, Svg
from nvdsl.sim.perfetto import short
from nvdsl.sim.slots import Fill, Ring, rings

if TYPE_CHECKING:
    from nvdsl.sim.recording import BlockRecord, LaunchRecord, Recording

FILLS = 16
"""Fills that a picture shows at most: the first ones."""

TOP, ROW, WAITS = 92, 46, 22


def picture(recording: Recording, launch: int = 0, block: int = 0) -> str:
    """The SVG of one block: all its rings, and when its warps waited. Raises SimError where nothing was loaded."""
    return str(_draw(*chosen(recording, launch, block)))


def chosen(recording: Recording, launch: int = 0, block: int = 0) -> tuple[LaunchRecord, BlockRecord, list[Ring]]:
    """The first block from there on that loaded something, and its rings. Raises SimError where there is none."""
    for candidate in recording.launches[launch:]:
        for one in candidate.blocks[block:]:
            found = rings(one)
            if found:
                return candidate, one, found
    raise SimError(
        "there is no ring to draw: no TMA load into shared memory completed on an mbarrier",
        kind="picture",
        fix="a trace (NVDSL_SIM_TRACE) shows kernels without TMA loads too",
    )


def _draw(launch: LaunchRecord, block: BlockRecord, found: list[Ring]) -> Svg:
    shown = [Ring(r.name, r.slots, [f for f in r.fills if f.number < FILLS]) for r in found]
    complete = all(len(s.fills) == len(r.fills) for s, r in zip(shown, found, strict=True))
    stores, waits = _stores(block), _waits(block)
    fills = [f for r in shown for f in r.fills]
    end = block.end if complete else max(f.end for f in fills)
    if any(f.full >= end and not f.readers for f in fills):
        end += 1  # ordinary loads, which take no step, read what came last
    axis = Axis(end, max([104.0, *(8 * len(slot_name(r, r.slots - 1)) + 18 for r in shown)]))
    slots = sum(r.slots for r in shown)
    height = TOP + ROW * slots + 14 * (len(shown) - 1) + 12 + WAITS * (len(stores) + len(waits)) + 62
    title = f"{launch.kernel}, {block.name}: ring slots over time"
    svg = Svg(WIDTH, height, title)
    svg.text(16, 28, title, size=17, bold=True)
    steps = "" if complete else f" The first {FILLS} of {max(len(r.fills) for r in found)} fills."
    words = f"Simulated: {launch.schedule}. {NOTE}{steps}"
    svg.text(16, 48, words, colour=GREY)
    several = any(len(fill.readers) > 1 for ring in shown for fill in ring.fills)
    each = " (a bar for each warpgroup)" if several else ""
    loading = svg.hatch("loading", "#9ccbe6", "#d6ebf7")
    svg.legend(16, 74, [
        (loading, BLUE, "TMA loads"), (ORANGE, ORANGE, "full, no wgmma reads it"),
        (GREEN, GREEN, f"wgmma reads it{each}"), (PAPER, GREY, "empty"),
        *([(PURPLE, PURPLE, "TMA stores")] if stores else []), (RED, RED, "warps wait"),
    ])  # fmt: skip
    y = float(TOP)
    bottom = height - 50
    axis.draw(svg, TOP, bottom)
    for ring in shown:
        for slot in range(ring.slots):
            _row(svg, axis, y, ring, slot, loading)
            y += ROW
        y += 14
    y += 2
    for does, colour, rows in (("under way", PURPLE, stores), ("waits", RED, waits)):
        for name, intervals in rows.items():
            svg.text(axis.left - 10, y + 13, name, anchor="end", size=11, colour=GREY)
            for start, end in intervals:
                if start < axis.end:
                    x, stop = axis.x(start), axis.x(end)
                    svg.rect(x, y + 5, stop - x, 9, colour, radius=1, tip=f"{does} {start} to {end}")
            y += WAITS
    return svg


def _row(svg: Svg, axis: Axis, y: float, ring: Ring, slot: int, loading: str) -> None:
    svg.text(axis.left - 10, y + 27, slot_name(ring, slot), anchor="end", mono=True)
    svg.rect(axis.left, y + 6, axis.x(axis.end) - axis.left, ROW - 12, PAPER, stroke=LIGHT)
    for fill in ring.fills:
        if fill.slot == slot:
            _fill(svg, axis, y + 6, ROW - 12, fill, loading)


def slot_name(ring: Ring, slot: int) -> str:
    """The name of the mbarrier on which the slot's loads complete."""
    used = (fill.loads[0].args["mbarrier"] for fill in ring.fills if fill.slot == slot)
    return next(used, f"{ring.name}[{slot}]")


def _fill(svg: Svg, axis: Axis, y: float, height: float, fill: Fill, loading: str) -> None:
    x, full = axis.x(fill.start), axis.x(fill.full)
    lines = ", ".join(dict.fromkeys(short(load.where) for load in fill.loads if load.where))
    steps = f"steps {fill.start} to {fill.full} ({lines})"
    tip = f"fill {fill.number}: {len(fill.loads)} loads, {fill.bytes:,} bytes, {steps}"
    svg.rect(x, y, full - x, height, loading, stroke=BLUE, tip=tip)
    label(svg, x, full, y + height / 2, [f"load {fill.number}", str(fill.number)], INK)
    read = fill.read_from
    until = axis.x(read if read is not None else fill.after if fill.after is not None else axis.end)
    if until > full:
        tip = f"fill {fill.number}: full since {fill.full}"
        svg.rect(full, y, until - full, height, ORANGE, stroke=ORANGE, tip=tip)
        label(svg, full, until, y + height / 2, [f"full {fill.number}", str(fill.number)], INK)
    part = height / max(len(fill.readers), 1)
    for i, (lane, (start, end)) in enumerate(sorted(fill.readers.items())):
        x, stop, top = axis.x(start), axis.x(end), y + i * part
        if start > (read or 0):
            svg.rect(axis.x(read or 0), top, x - axis.x(read or 0), part, ORANGE, stroke=ORANGE)
        svg.rect(x, top, stop - x, part, GREEN, stroke=PAPER, tip=f"fill {fill.number}: {lane}, steps {start} to {end}")
        label(svg, x, stop, top + part / 2, [f"read {fill.number}", str(fill.number)], PAPER)


def _waits(block: BlockRecord) -> dict[str, list[tuple[int, int]]]:
    """When some warp of each warpgroup waited for longer than the step that asking takes."""
    found: dict[str, list[tuple[int, int]]] = {}
    for name, lanes in _warpgroups(block):
        spans = [(s.start, s.end) for s in block.spans if s.kind == "wait" and s.lane in lanes and s.end - s.start > 1]
        found[f"{name} wait" if len(lanes) > 1 else f"{name} waits"] = _union(spans)
    return found


def _stores(block: BlockRecord) -> dict[str, list[tuple[int, int]]]:
    """When TMA stores of each warpgroup that issued any were under way."""
    stores = [s for s in block.spans if s.kind == "store" and s.cause is not None]
    found = {
        f"{name} store": _union([(s.start, s.end) for s in stores if s.cause and s.cause.lane in lanes])
        for name, lanes in _warpgroups(block)
    }
    return {name: intervals for name, intervals in found.items() if intervals}


def _warpgroups(block: BlockRecord) -> list[tuple[str, set[str]]]:
    """Names, each with its warps' lanes."""
    found = []
    for first in range(0, block.warps, 4):
        last = min(first + 3, block.warps - 1)
        name = f"warps {first}-{last}" if last > first else f"warp {first}"
        found.append((name, {f"warp {i}" for i in range(first, last + 1)}))
    return found


def _union(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged
