"""scf.for and scf.if over host values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.driver.host.builder import Builder, Frame, Handler, Step, sequence
from nvdsl.errors import ArgumentError
from nvdsl.ir.location import where


def _copy(pairs: Sequence[tuple[int, int]]) -> Step:
    """All sources are read before a target is written: targets may be sources."""
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]

    def run(frame: Frame) -> None:
        values = [frame[s] for s in sources]
        for target, value in zip(targets, values, strict=True):
            frame[target] = value

    return run


def _for(builder: Builder, op: Any) -> Step:
    builder.plain = False
    start, stop, by, *initial = builder.slots(op.operands)
    body = op.regions[0].blocks[0]
    variable, *carried = [builder.define(argument) for argument in body.arguments]
    for slot in carried:  # views may change places from one iteration to the next
        if slot in builder.layouts:
            builder.roots[slot] = builder.arguments
    steps, terminator = builder.block(body)
    line = where(op)
    run_body = sequence(steps)
    enter = _copy(list(zip(initial, carried, strict=True)))
    advance = _copy(list(zip(builder.slots(terminator.operands), carried, strict=True)))
    for result, slot in zip(op.results, carried, strict=True):
        builder.alias(result, slot)

    def run(frame: Frame) -> None:
        if frame[by] <= 0:
            raise ArgumentError(
                f"scf.for with a step of {frame[by]}", where=line, rule="the step of a loop is at least 1"
            )
        enter(frame)
        for value in range(frame[start], frame[stop], frame[by]):
            frame[variable] = value
            run_body(frame)
            advance(frame)

    return run


def _if(builder: Builder, op: Any) -> Step:
    builder.plain = False
    condition = builder.slot(op.operands[0])
    results = [builder.define(result) for result in op.results]
    branches: list[Step] = []
    views: frozenset[int] = frozenset()
    for region in op.regions:
        if not len(region.blocks):
            branches.append(sequence(()))
            continue
        steps, terminator = builder.block(region.blocks[0])
        yielded = builder.slots(terminator.operands)
        views = views.union(*(builder.root(slot) for slot in yielded))
        branches.append(sequence([*steps, _copy(list(zip(yielded, results, strict=True)))]))
    for slot in results:
        if slot in builder.layouts:
            builder.roots[slot] = views
    yes, no = branches

    def run(frame: Frame) -> None:
        if frame[condition]:
            yes(frame)
        else:
            no(frame)

    return run


HANDLERS: dict[str, Handler] = {"scf.for": _for, "scf.if": _if}
