"""How many arrivals complete a phase of an mbarrier, against how many there are.

Counted are the arrivals that come round by round with a wait: those in loops of as many rounds as the wait's, at the
slot that the round has. Where other arrivals may make up for what is missing, nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nvdsl.errors import VerifyError
from nvdsl.errors.records import dataclass
from nvdsl.ir.location import where
from nvdsl.verify.context import Context, beside, contexts
from nvdsl.verify.mbarriers import Event, Group, Part
from nvdsl.verify.program import Node, Program

_RULE = (
    "a phase completes when as many arrivals have come as mbarrier.init says (PTX ISA, mbarrier.init, mbarrier.arrive)"
)


@dataclass(frozen=True)
class _Counts:
    """``by_slot``: barrier of the group -> (the count that it is initialized to, where)."""

    context: Context
    group: Group
    by_slot: dict[int, tuple[int, Node]]

    def of(self, event: Event, otherwise: Callable[..., tuple[int, Node]]) -> tuple[int, Node] | None:
        """The largest of the barriers that ``event`` comes to, None where one isn't initialized; ``otherwise`` (min or
        max) of all where they aren't known."""
        every = self.by_slot.values()
        if len(every) == self.group.size and len({count for count, _ in every}) == 1:
            return next(iter(every))
        slots = self.context.slots(self.group, event)
        if not slots:
            return otherwise(every, key=_count)
        return max((self.by_slot[s] for s in slots), key=_count) if slots <= self.by_slot.keys() else None


def _count(known: tuple[int, Node]) -> int:
    return known[0]


def check(program: Program) -> None:
    for context in contexts(program):
        for group in context.groups:
            arrivals, waits = context.parts(group, "arrive"), context.parts(group, "wait")
            counts = _counts(context, group)
            if counts is None or not waits or arrivals is None or any(p.each is None for p in arrivals):
                continue
            for part in arrivals:
                _check_too_many(counts, part)
            if arrivals or any(g.of("bytes") for g in context.groups):  # else: a part of a kernel
                for wait in waits:
                    _check_too_few(context, group, counts, arrivals, wait)


def _counts(context: Context, group: Group) -> _Counts | None:
    found: dict[int, tuple[int, Node]] = {}
    for init in group.of("init"):
        count, slots = context.threads.of(init.amount), context.slots(group, init)
        if not isinstance(count, int) or slots is None:
            return None
        for slot in slots:
            if slot in found and found[slot][0] != count:
                return None
            found[slot] = (count, init.node)
    return _Counts(context, group, found) if found else None


def _check_too_many(counts: _Counts, part: Part) -> None:
    """One instruction of more threads than a phase has arrivals ends several phases at once."""
    known = counts.of(part.event, max)
    arrive = int(part.each.max())
    if known and arrive > known[0] and not (_of_a_warp(part) <= known[0] and _come_apart(counts.context, part)):
        count, init = known
        node = part.event.node
        raise VerifyError(
            f"{arrive} threads arrive at an mbarrier of {_arrivals(count)} (init at {beside(init, node)})",
            where=where(node.op),
            rule=_RULE + "; the others count for the phases after it",
            fix=f"initialize with {arrive}, or let one thread arrive: under `if nv.thread_id.x == 0:`, or with a "
            "predicate",
        )


def _of_a_warp(part: Part) -> int:
    """The most arrivals of one warp: its lanes come together."""
    lanes = part.lanes.reshape(-1, 32).sum(1) if part.lanes.size % 32 == 0 else part.lanes.sum()
    return int(lanes.max() * part.each.max() / max(int(part.lanes.sum()) // len(part.each), 1))


def _come_apart(context: Context, part: Part) -> bool:
    """Whether the warps may arrive in different phases: before it they wait at different mbarriers, or for different
    phases of one (warpgroups that take turns)."""
    waits = [event for group in context.groups for event in group.of("wait")]
    before = [event for event in waits if event.node.order < part.event.node.order]
    for value in [x for event in before for x in (event.index, event.parity)]:
        first = context.threads.of(value, first=True)
        if first is None or len(set(context.threads.array(first)[part.lanes].tolist())) > 1:
            return True
    return False


def _check_too_few(context: Context, group: Group, counts: _Counts, arrivals: list[Part], wait: Part) -> None:
    known = counts.of(wait.event, min)
    if not known or not wait.lanes.any() or wait.reach.conditions:
        return
    needed, init = known
    if not arrivals:
        missing = _nothing_at_all(context, group, wait)
    elif wait.reach.loops and _moves(context, wait):
        missing = _each_round(wait, arrivals, needed, 0 if context.first_parity(wait.event) == 0 else group.size)
    elif context.first_parity(wait.event) == 0 and wait.slot[0] == "is":  # type: ignore[index]
        missing = _at_all(wait, arrivals, needed)
    else:
        missing = None
    if missing is not None:
        raise _error(context, group, wait, arrivals, needed, missing, init)


def _moves(context: Context, wait: Part) -> bool:
    """Whether each round waits for a phase of its own."""
    event = wait.event
    return context.expressions.varies(event.index) or context.expressions.varies(event.parity)


def _nothing_at_all(context: Context, group: Group, wait: Part) -> int | None:
    """0 where the wait hangs: at once, or when it comes round the ring again."""
    if context.first_parity(wait.event) == 0:
        return 0
    more = None in wait.reach.trips or math.prod(wait.reach.trips) > group.size  # type: ignore[arg-type]
    return 0 if _moves(context, wait) and more else None


def _each_round(wait: Part, arrivals: list[Part], needed: int, free: int) -> int | None:
    """Arrivals of one round of the loop with ``wait``, where that is fewer than ``needed`` in the long run. ``free``:
    rounds that need none, since a producer finds every slot empty at first."""
    same = [p for p in arrivals if p.reach.loops == wait.reach.loops]
    others = [p for p in arrivals if p.reach.loops != wait.reach.loops]
    arrive = int(sum(p.each for p in same).max()) if same else 0
    rounds = None if None in wait.reach.trips else math.prod(wait.reach.trips)  # type: ignore[arg-type]
    if arrive >= needed or (rounds is not None and rounds <= free):
        return None
    if not others:
        return arrive
    if rounds is None or any(None in p.reach.trips for p in others):
        return None
    extra = sum(_everything(p) for p in others)
    return arrive if arrive * rounds + extra < needed * (rounds - free) else None


def _everything(part: Part) -> int:
    """Arrivals of all rounds."""
    return int(part.each.max()) * math.prod(part.reach.trips)  # type: ignore[arg-type]


def _at_all(wait: Part, arrivals: list[Part], needed: int) -> int | None:
    """Arrivals of the whole kernel that may be at the barrier of ``wait``, where those are fewer than ``needed``."""
    possible = [p for p in arrivals if p.slot == wait.slot or p.slot[0] != "is"]  # type: ignore[index]
    if any(None in p.reach.trips for p in possible):
        return None
    total = sum(map(_everything, possible))
    return total if total < needed else None


def _error(
    context: Context, group: Group, wait: Part, arrivals: list[Part], needed: int, found: int, init: Node
) -> VerifyError:
    lines = ", ".join(dict.fromkeys(beside(p.event.node, init) for p in arrivals))
    expects_only = not arrivals and bool(context.parts(group, "expect"))
    happens = f"{found} arrive{'s' * (found == 1)} ({lines})" if found else "nothing arrives"
    per = "in a round" if wait.reach.loops and arrivals else "at it"
    return VerifyError(
        f"the mbarrier waits for {_arrivals(needed)}, and {happens} {per}; the wait at "
        f"{beside(wait.event.node, init)} hangs",
        where=where(init.op),
        rule=_RULE + ("; expect_tx alone is no arrival" if expects_only else ""),
        fix=f"initialize with {found}, or let all arrive" if found else "arrive(), or arrive_expect_tx(bytes)",
    )


def _arrivals(count: Any) -> str:
    return f"{count} arrival{'s' * (count > 1)}"
