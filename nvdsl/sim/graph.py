"""A region of several blocks, with branches: of lanes that parted, those in the first block run until they meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvdsl.ir.location import where
from nvdsl.ir.operands import named
from nvdsl.ir.walk import walk
from nvdsl.sim.decode import Decoder, Frame
from nvdsl.sim.moved import Moved
from nvdsl.sim.polling import STRETCH, turning
from nvdsl.sim.values import integer_type, select

Copies = list[tuple[int, int, Any]]
"""(from slot, to slot, integer type) of the values that a branch hands over."""


class Graph:
    """The blocks of a region, decoded. ``results``: slots of what the region yields, in the parent's op."""

    def __init__(self, d: Decoder, region: Any, results: list[Any]) -> None:
        blocks = list(region.blocks)
        for block in blocks[1:]:
            for argument in block.arguments:
                d.define(argument)
        self._bodies, self._made, self._ends = [], [], []
        ends = []
        for block in blocks:
            body, end = d.block(block)
            self._bodies.append(body)
            values = [value for op in block.operations for one in walk(op.operation) for value in one.results]
            slots = [(d.find(value), integer_type(value.type)) for value in values]
            self._made.append([(slot, kind) for slot, kind in slots if slot is not None])
            ends.append(end)
        self._results = results
        for end in ends:
            self._ends.append(self._end(d, end, blocks, results))
        self._turning = turning(where(ends[0]), reads=False)

    def _end(self, d: Decoder, end: Any, blocks: list[Any], results: list[Any]) -> Any:
        """(condition's slot or None, edges): an edge is (number of the block, None for the region's end; copies; the
        same for what is undefined)."""
        slots = d.operands(end)
        if end.name not in ("cf.br", "cf.cond_br"):
            kinds = [integer_type(value.type) for value in end.operands]
            copies = list(zip(slots, results, kinds, strict=True)) if results else []
            return None, [(None, copies, Moved(d, results, end.operands if results else []))]
        targets = [next(i for i, block in enumerate(blocks) if block == target) for target in end.successors]
        if end.name == "cf.br":
            return None, [self._edge(d, targets[0], blocks[targets[0]], end.operands)]
        view = named(end)
        given = view.trueDestOperands, view.falseDestOperands
        return d.slot(view.condition), [self._edge(d, t, blocks[t], g) for t, g in zip(targets, given, strict=True)]

    def _edge(self, d: Decoder, number: int, block: Any, given: Any) -> Any:
        arguments = list(block.arguments)
        kinds = [integer_type(argument.type) for argument in arguments]
        sources, targets = [d.slot(value) for value in given], [d.slot(argument) for argument in arguments]
        return number, list(zip(sources, targets, kinds, strict=True)), Moved(d, targets, given)

    def run(self, v: Frame) -> Iterator[Any]:
        w = v[0]
        outer = w.mask
        waiting: dict[int, Any] = {0: outer}
        turns = 0
        while waiting:
            number = min(waiting)
            mask = waiting.pop(number)
            w.set_mask(mask)
            part = not (mask == outer).all()
            before = [v[slot] for slot, _ in self._made[number]] if part else []
            yield from self._bodies[number].run(v)
            for (slot, kind), old in zip(self._made[number], before, strict=False):
                if old is not None and v[slot] is not old:
                    v[slot] = select(mask, v[slot], old, kind)
            condition, edges = self._ends[number]
            for (target, copies, moved), lanes in zip(edges, _parted(v, condition, mask), strict=True):
                if not lanes.any():
                    continue
                if w.undefined:
                    moved(v, lanes)
                _hand_over(v, copies, lanes, (lanes == outer).all())
                if target is not None:
                    waiting[target] = waiting[target] | lanes if target in waiting else lanes
                    turns += target <= number
            if turns >= STRETCH:
                turns = 0
                yield self._turning
        w.set_mask(outer)


def _parted(v: Frame, condition: int | None, mask: Any) -> list[Any]:
    """The lanes that take each edge."""
    if condition is None:
        return [mask]
    c = v[condition]
    return [mask & c, mask & ~c] if c.__class__ is not bool else [mask & c, mask & (not c)]


def _hand_over(v: Frame, copies: Copies, lanes: Any, whole: bool) -> None:
    values = [v[source] for source, _, _ in copies]
    for (_, target, kind), value in zip(copies, values, strict=True):
        old = v[target]
        v[target] = value if whole or old is None else select(lanes, value, old, kind)
