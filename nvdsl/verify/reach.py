"""Which threads reach an op, how often, and under which conditions that the module doesn't determine."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from nvdsl.errors.records import dataclass
from nvdsl.ir.walk import defining, yielded
from nvdsl.verify.expressions import Expressions
from nvdsl.verify.program import Kernel, Node
from nvdsl.verify.threads import Threads


@dataclass(frozen=True)
class Reach:
    """``lanes``: the threads that may reach the op; no other does. ``loops``: the rounds of each loop around it,
    outermost first. ``conditions``: what else must hold, which no thread knows before it runs. ``uniform``: then either
    all of ``lanes`` in a block reach it, or none. ``branches``: the ifs that keep threads out."""

    lanes: Any
    loops: tuple[Hashable, ...]
    trips: tuple[int | None, ...]
    conditions: tuple[Hashable, ...]
    uniform: bool
    branches: tuple[Node, ...]

    @property
    def context(self) -> Hashable:
        return (self.loops, self.conditions)


class Reaches:
    """`Reach` of the nodes of one kernel."""

    def __init__(self, kernel: Kernel, threads: Threads, expressions: Expressions) -> None:
        self.threads, self.expressions = threads, expressions
        everyone = np.ones(threads.count, bool)
        self._known: dict[tuple[int, int], Reach] = {(id(kernel.launch), 0): Reach(everyone, (), (), (), True, ())}

    def of(self, node: Node, predicate: Any = None) -> Reach:
        """``predicate``: the op's own condition."""
        assert node.parent is not None
        reach = self._region(node.parent, node.region)
        return reach if predicate is None else self._under(reach, predicate, True, None)

    def _region(self, node: Node, number: int) -> Reach:
        key = (id(node), number)
        if key not in self._known:
            assert node.parent is not None
            self._known[key] = self._enter(self._region(node.parent, node.region), node, number)
        return self._known[key]

    def _enter(self, outer: Reach, node: Node, number: int) -> Reach:
        if node.name == "scf.if":
            return self._under(outer, node.op.operands[0], number == 0, node)
        if node.name == "scf.for":
            bounds = list(node.op.operands)[:3]
            trips = self._trips(node)
            lanes = outer.lanes if isinstance(trips, int) or trips is None else outer.lanes & (trips > 0)
            return Reach(
                lanes,
                (*outer.loops, self.expressions.loop_key(node.op)),
                (*outer.trips, trips if isinstance(trips, int) else None),
                outer.conditions,
                outer.uniform and all(self.expressions.uniform(x) for x in bounds),
                outer.branches,
            )
        region = ("region", hash(node.op), number)
        if node.name == "scf.while":
            loops, trips = (*outer.loops, region), (*outer.trips, None)
            return Reach(outer.lanes, loops, trips, outer.conditions, False, outer.branches)
        return Reach(outer.lanes, outer.loops, outer.trips, (*outer.conditions, region), False, outer.branches)

    def rounds(self, loop: Node) -> int | None:
        """How often the body of a loop runs, where all threads run it as often and that is known."""
        trips = self._trips(loop)
        return trips if isinstance(trips, int) else None

    def _trips(self, node: Node) -> Any:
        """Rounds of an scf.for in each thread: an int, an array, None where it isn't known."""
        low, high, step = (self.threads.of(x) for x in list(node.op.operands)[:3])
        if low is None or high is None or not isinstance(step, int) or step <= 0:
            return None
        rounds = np.maximum(0, -((low - high) // step))
        return rounds if isinstance(rounds, np.ndarray) and rounds.ndim else int(rounds)

    def _under(self, outer: Reach, condition: Any, holds: bool, node: Node | None) -> Reach:
        may, may_not = self.threads.truth(condition)
        lanes = outer.lanes & (may if holds else may_not)
        conditions, uniform = outer.conditions, outer.uniform
        for part in self._conjuncts(condition) if holds else [condition]:
            if self.threads.of(part) is None:
                conditions = (*conditions, (holds, self.expressions.key(part)))
                uniform = uniform and self.expressions.uniform(part)
        keeps_out = node is not None and not np.array_equal(lanes, outer.lanes)
        branches = (*outer.branches, node) if keeps_out else outer.branches
        return Reach(lanes, outer.loops, outer.trips, conditions, uniform, branches)  # type: ignore[arg-type]

    def _conjuncts(self, condition: Any) -> list[Any]:
        """What must hold for ``condition`` to: `a and b` is a bitwise and, a select, or an if that yields b or
        false."""
        op = defining(condition)
        if op is None or self.threads.of(condition) is not None or str(condition.type) != "i1":
            return [condition]
        both: list[Any] = []
        if op.name == "arith.andi":
            both = list(op.operands)
        elif op.name == "arith.select" and self.threads.never(op.operands[2]):
            both = list(op.operands)[:2]
        elif op.name == "scf.if" and len(op.results) == 1:
            then, otherwise = map(yielded, op.regions)
            both = [op.operands[0], then[0]] if self.threads.never(otherwise[0]) else []
        return [part for one in both for part in self._conjuncts(one)] or [condition]
