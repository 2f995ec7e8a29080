"""The slots of a ring over time as a page with a slider: what each slot, mbarrier and warp is at in every step.

This module puts a recorded block into the form that ``nvdsl/layout/draw/pages/slots.js`` reads. The script
only looks up what is current at a step.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvdsl.errors import Where
from nvdsl.layout.draw import page
from nvdsl.sim.perfetto import slot_of
from nvdsl.sim.picture import chosen, slot_name
from nvdsl.sim.slots import Fill, Ring, base

if TYPE_CHECKING:
    from nvdsl.sim.recording import BlockRecord, LaunchRecord, Recording

FILLS = 64
"""Fills of a ring that a page shows at most: the first ones."""


def html(recording: Recording, launch: int = 0, block: int = 0) -> str:
    """The page of one block. Raises SimError where nothing was loaded."""
    data = timeline(*chosen(recording, launch, block))
    return page.html("slots", data["title"], data)


def timeline(launch: LaunchRecord, block: BlockRecord, rings: list[Ring]) -> dict[str, Any]:
    """What the page shows. Times are steps; a state holds from its step on, up to the next one's."""
    shown = [fill for ring in rings for fill in ring.fills if fill.number < FILLS]
    fills = sum(len(ring.fills) for ring in rings)
    end = block.end if len(shown) == fills else max(fill.end for fill in shown)
    lines = _Lines()
    mbarriers = _mbarriers(block, end)
    names = list(mbarriers)
    slots = [
        {
            "name": slot_name(ring, slot),
            "fills": [_fill(fill) for fill in ring.fills if fill.slot == slot and fill.number < FILLS],
            "mbarriers": [names.index(name) for name in _beside(ring, slot, len(rings) == 1, names)],
        }
        for ring in rings
        for slot in range(ring.slots)
    ]
    warps = _warps(block, end, lines)
    return {
        "title": f"{launch.kernel}, {block.name}: ring slots over time",
        "schedule": launch.schedule,
        "cut": "" if len(shown) == fills else f"the first {FILLS} of {max(len(ring.fills) for ring in rings)} fills",
        "stopped": launch.stopped,
        "end": end,
        "slots": slots,
        "mbarriers": [{"name": name, **states} for name, states in mbarriers.items()],
        "warps": warps,
        "groups": _groups(block, warps),
        "stores": [
            [span.start, min(span.end, end), _issuer(span), span.args["bytes"]]
            for span in block.spans
            if span.kind == "store" and span.start < end
        ],
        "lines": lines.table,
        "source": lines.source(),
    }


def _fill(fill: Fill) -> dict[str, Any]:
    return {
        "k": fill.number,
        "start": fill.start,
        "full": fill.full,
        "end": fill.end,
        "bytes": fill.bytes,
        "loads": [[load.end, load.args["bytes"]] for load in fill.loads],
        "readers": [[lane, start, end] for lane, (start, end) in sorted(fill.readers.items())],
    }


def _issuer(span: Any) -> str:
    return span.cause.lane if span.cause is not None else ""


def _mbarriers(block: BlockRecord, end: int) -> dict[str, dict[str, Any]]:
    """By name: the arrivals of a phase, and [step, phase, pending arrivals, pending bytes] at each change."""
    completed: dict[str, list[int]] = {}
    for span in block.spans:
        if span.kind == "phase":
            completed.setdefault(span.lane, []).append(span.end)
    found: dict[str, dict[str, Any]] = {}
    for sample in block.samples:
        if sample.time > end:
            continue
        of = found.setdefault(sample.mbarrier, {"count": sample.arrivals, "states": []})
        phase = sum(done <= sample.time for done in completed.get(sample.mbarrier, []))
        if of["states"] and of["states"][-1][0] == sample.time:
            of["states"].pop()
        of["states"].append([sample.time, phase, sample.arrivals, sample.bytes])
    return found


def _beside(ring: Ring, slot: int, alone: bool, names: list[str]) -> list[str]:
    """The mbarriers of a slot: the one that loads complete on, and those of the same number in groups of as many
    (of which the loads may have used some). With several rings (``alone`` is False) only the groups of the same `Ring`
    belong together."""
    own = slot_name(ring, slot)
    owner = ring.name.rpartition(".")[0]
    sizes = Counter(map(base, names))
    found = [own] if own in names else []
    for name in names:
        group = base(name)
        together = alone or (owner and group.rpartition(".")[0] == owner)
        if name != own and together and slot_of(name) == slot and sizes[group] == sizes[ring.name]:
            found.append(name)
    return found


def _warps(block: BlockRecord, end: int, lines: _Lines) -> list[list[list[Any]]]:
    """For each warp [start, end, "op" or "wait", what, index of the line or -1], one after the other."""
    warps: list[list[list[Any]]] = [[] for _ in range(block.warps)]
    for span in sorted((s for s in block.spans if s.kind in ("op", "wait") and s.start <= end), key=lambda s: s.start):
        warps[int(span.lane.removeprefix("warp "))].append(
            [span.start, span.end, span.kind, span.name, lines.index(span.where)]
        )
    return warps


def _groups(block: BlockRecord, warps: list[list[list[Any]]]) -> list[dict[str, Any]]:
    """The warpgroups, called after what they do in this block."""
    groups: list[dict[str, Any]] = []
    consumers = 0
    for first in range(0, block.warps, 4):
        members = list(range(first, min(first + 4, block.warps)))
        does = {op[3].partition(" m")[0] for warp in members for op in warps[warp]}
        loads, multiplies = "TMA load" in does, "wgmma" in does
        if multiplies and not loads:
            name, badge = f"consumer {consumers}", f"C{consumers}"
            consumers += 1
        elif loads:
            name, badge = ("loads and multiplies", "W") if multiplies else ("producer", "P")
        else:
            name, badge = "other warps", f"W{first // 4}"
        groups.append({"name": name, "badge": badge, "warps": members})
    return groups


class _Lines:
    """The user's lines that a block was at, numbered, and the text around them."""

    def __init__(self) -> None:
        self.table: list[list[int]] = []  # [file, line]
        self._files: list[str] = []
        self._known: dict[Where, int] = {}

    def index(self, where: Where | None) -> int:
        if where is None:
            return -1
        if where not in self._known:
            if where.file not in self._files:
                self._files.append(where.file)
            self._known[where] = len(self.table)
            self.table.append([self._files.index(where.file), where.line])
        return self._known[where]

    def source(self) -> list[dict[str, Any]]:
        """Of each file the functions that the lines are in, from the first to the last one."""
        return [self._excerpt(number, name) for number, name in enumerate(self._files)]

    def _excerpt(self, number: int, name: str) -> dict[str, Any]:
        touched = [line for file, line in self.table if file == number]
        try:
            text = Path(name).read_text("utf-8")
            first, last = _around(ast.parse(text), touched)
        except (OSError, UnicodeDecodeError, SyntaxError):  # a notebook's cell, a file that has gone
            return {"file": Path(name).name, "first": 1, "text": []}
        return {"file": Path(name).name, "first": first, "text": text.splitlines()[first - 1 : last]}


def _around(tree: ast.Module, lines: list[int]) -> tuple[int, int]:
    """First and last line of the innermost functions that ``lines`` are in."""
    functions = [
        (min([node.lineno, *(mark.lineno for mark in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    spans = []
    for line in lines:
        around = [(last - first, first, last) for first, last in functions if first <= line <= last]
        spans.append(min(around)[1:] if around else (line, line))
    return min(first for first, _ in spans), max(last for _, last in spans)
