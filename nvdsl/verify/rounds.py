"""The values that an expression takes in the rounds of the loop around it, where the module determines them."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.walk import defining, identity, yielded
from nvdsl.mlir import ir
from nvdsl.verify.evaluate import compute, fit
from nvdsl.verify.threads import Known, Threads


def values(threads: Threads, value: Any, loop: Any | None, limit: int) -> tuple[list[Known], bool]:
    """``value`` in each of the first ``limit`` rounds of ``loop``, the innermost scf.for around it (None: in none, so
    that there is one value), and whether these are all. Loops further out are in their first round."""
    if loop is None or loop.name != "scf.for":
        return [threads.of(value, first=True)], loop is None
    if threads.of(value) is not None:
        return [threads.of(value)], True
    variable, high = loop.regions[0].blocks[0].arguments[0], threads.of(loop.operands[1], first=True)
    this = threads.loops.get(identity(variable))
    if this is None:
        this = threads.loops[identity(variable)] = _Loop(threads, loop)
    found: list[Known] = []
    while len(found) < limit:
        round_ = this.round(len(found))
        now = round_.of(variable)
        if isinstance(now, int) and isinstance(high, int) and now >= high:
            return found, True
        found.append(round_.of(value))
    return found, False


class _Loop:
    """A loop, and the rounds of it that were looked at: many values have parts in common."""

    def __init__(self, threads: Threads, loop: Any) -> None:
        self.threads, self._rounds = threads, [_Round(self, None)]
        block = loop.regions[0].blocks[0]
        arguments, operands = [identity(a) for a in block.arguments], list(loop.operands)
        self.variable, self.step = arguments[0], threads.of(operands[2], first=True)
        self.first = dict(zip(arguments, [operands[0], *operands[3:]], strict=True))
        self.after = dict(zip(arguments[1:], yielded(block.region), strict=True)) if len(arguments) > 1 else {}

    def round(self, number: int) -> _Round:
        """The round of this number, of which the ones before were looked at."""
        if number == len(self._rounds):
            self._rounds.append(_Round(self, self._rounds[-1]))
        return self._rounds[number]


class _Round:
    """One round of a loop, and the one before it; what a value needs of them is found when it is asked for."""

    def __init__(self, loop: _Loop, before: _Round | None) -> None:
        self.loop, self.before = loop, before
        self.memory: dict[int, Known] = {}

    def of(self, value: Any) -> Known:
        key = identity(value)
        if key not in self.memory:
            self.memory[key] = self._find(value, key)
        return self.memory[key]

    def _find(self, value: Any, key: int) -> Known:
        if key in self.loop.first:
            return self._argument(value, key)
        known = self.loop.threads.of(value)
        op = defining(value)
        if known is not None:
            return known
        if op is None:
            return self.loop.threads.of(value, first=True)  # an outer loop's variable
        if not op.name.startswith("arith.") or not isinstance(value.type, ir.IntegerType | ir.IndexType):
            return None
        operands = [self.of(x) for x in op.operands]
        if any(x is None for x in operands):
            return None
        result = compute(op, operands)
        return None if result is None else fit(result, value)

    def _argument(self, value: Any, key: int) -> Known:
        if self.before is None:
            return self.loop.threads.of(self.loop.first[key], first=True)
        if key != self.loop.variable:
            return self.before.of(self.loop.after[key])
        last, step = self.before.of(value), self.loop.step
        return last + step if isinstance(last, int) and isinstance(step, int) else None
