"""Lanes of a warp that parted: the branches they took run beside each other, and instructions with a mask meet.

Since sm_70 lanes are scheduled on their own, so that a branch that waits does not keep another from running, and a
``.sync`` instruction waits for the lanes that its mask names wherever these execute it. Lanes that have come to the end
of the ``if`` wait there for the others.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.ir.collectives import MASKED_RULE
from nvdsl.sim.lanes import names
from nvdsl.sim.machine import Waiting
from nvdsl.sim.report import error
from nvdsl.sim.uniform import one_value


class _Branch:
    """Lanes on their way through a branch: ``steps`` is what they run, ``mask`` those of them that are active."""

    __slots__ = ("mask", "steps", "waiting")

    def __init__(self, mask: Any, steps: Iterator[Any]) -> None:
        self.mask, self.steps = mask, steps
        self.waiting: Waiting | None = None


def together(w: Any, branches: Iterable[tuple[Any, Iterator[Any]]]) -> Iterator[Any]:
    """Run (mask, steps) of each branch; one that waits lets the next go on. Leaves the mask to the caller."""
    live = [_Branch(mask, steps) for mask, steps in branches]
    while live:
        ran = False
        for one in list(live):
            if one.waiting is not None and not one.waiting.ready():
                continue
            ran = True
            _resume(w, live, one)
        if live and not ran:
            if all(one.waiting.lanes is not None for one in live):  # type: ignore[union-attr]
                raise live[0].waiting.lanes.error(w)  # type: ignore[union-attr]
            yield _waiting(live)
            for one in list(live):
                if one.waiting.spins:  # type: ignore[union-attr]
                    _resume(w, live, one)


def _resume(w: Any, live: list[_Branch], one: _Branch) -> None:
    w.set_mask(one.mask)
    one.waiting = next(one.steps, None)
    one.mask = w.mask
    if one.waiting is None:
        live.remove(one)


def _waiting(live: list[_Branch]) -> Waiting:
    waits = [one.waiting for one in live if one.waiting is not None]
    if len(waits) == 1:
        return waits[0]
    polls = [one for one in waits if one.spins]
    first = next((one for one in waits if not one.spins), waits[0])
    return Waiting(
        lambda: any(one.ready() for one in waits),
        lambda: "; and ".join(one.describe() for one in waits),
        first.where,
        first.hint,
        spins=bool(polls),
        barrier=first.barrier,
        seen=polls[0].seen if len(polls) == 1 else None,
        turns=sum(one.turns for one in polls) or 1,
        lanes=next((one.lanes for one in waits if one.lanes is not None), None),
    )


class Meeting:
    """Lanes that have come to an instruction, of those that its mask names. ``values``: what they bring."""

    def __init__(self, what: str, named: int, at: Where | None) -> None:
        self.what, self.named, self.at, self.came = what, named, at, 0
        self.values: list[Any] = []

    def come(self, w: Any, values: list[Any]) -> None:
        if self.came:
            values = [np.where(w.mask, new, old) for new, old in zip(values, self.values, strict=True)]
        self.values = values
        self.came |= w.bits

    def error(self, w: Any) -> Exception:
        return not_all(w, self.what, self.named, self.came, self.at)


def named_lanes(w: Any, mask: Any, at: Where | None) -> int:
    """The lanes that a mask names, of those that exist."""
    return int(one_value(mask, w, at, "the mask")) & w.everyone


def not_all(w: Any, what: str, named: int, came: int, at: Where | None) -> Exception:
    missing, strange = named & ~came, came & ~named
    says = f"names {names(named)}, and {names(came)} execute{'s' if came.bit_count() == 1 else ''} it"
    fix = "move it out of the `if`, or name the lanes that are there" if missing else "name all lanes that execute it"
    more = f": {names(missing)} never come" if missing and not strange else ""
    return error("divergent-collective", f"{what} in {w.name} {says}{more}", at, MASKED_RULE, fix)


def gather(
    w: Any, what: str, named: int, values: list[Any], at: Where | None, orders: bool
) -> Generator[Any, None, list[Any]]:
    """Wait until all lanes that a mask names have come to an instruction; returns what they bring, together.

    ``orders``: whether they know then what the others did before (see `lanes`).
    """
    if w.bits & ~named:
        raise not_all(w, what, named, w.bits, at)
    meeting = w.meetings.setdefault((what, named), Meeting(what, named, at))
    meeting.come(w, values)
    if meeting.came != named:
        yield Waiting(
            lambda: meeting.came == meeting.named,
            lambda: f"{what}, which names {names(named)} (came: {names(meeting.came)})",
            at,
            lanes=meeting,
        )
    else:
        del w.meetings[what, named]
        if orders:
            w.meet(named)
    return meeting.values
