"""Loops that poll: a turn that changes nothing, neither the loop's values nor memory, will be the same again; and what
decides that one is over."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import SimError, Where
from nvdsl.ir.location import where
from nvdsl.sim.machine import Waiting
from nvdsl.sim.report import error
from nvdsl.sim.values import LANES

STRETCH = 64
"""Turns of a loop, each unlike the one before, after which others may run. They are as many polls where what the loop
reads decides when it ends."""
COMPUTED = 8
"""Of a loop that computes when it ends: it does not wait for others, and most such loops end by themselves."""


def polling(at: Where | None, seen: int | None) -> Waiting:
    """What polls once. ``seen``: `Machine.changes` before a turn of a loop that changed nothing; None: the next turn
    may be another."""
    return Waiting(lambda: False, "a condition that it polls", at, spins=True, seen=seen)


def turning(at: Where | None, reads: bool) -> Waiting:
    """What a loop waits for after `STRETCH`. ``reads``: whether what decides when it ends may come from memory."""
    if reads:
        return Waiting(lambda: False, "a condition that it polls", at, spins=True, turns=STRETCH)
    hint = "a loop has made hundreds of thousands of turns, and nothing else can go on: does it end?"
    return Waiting(lambda: False, "the end of its loop", at, lambda: hint, spins=True, turns=COMPUTED)


def endless(name: str, turns: int, at: Where | None) -> SimError:
    """What decides when a loop ends is what it was ``turns`` before, and nobody else can change it."""
    return error(
        "endless-loop",
        f"the loop of {name} does not end: what its condition is made of is what it was {turns} "
        f"turn{'s' if turns > 1 else ''} before",
        at,
        "a loop ends when its condition is false; what is computed of the same values stays the same",
        "assign in the body what the condition reads: `i += 1`, `work = queue.next(work)`",
    )


def repeats(now: list[Any], earlier: list[Any], active: Any) -> bool:
    """Whether the values have the bits that they had earlier, in the active lanes (None: in all)."""

    def those(x: Any) -> Any:
        return x if active is None or not isinstance(x, np.ndarray) or x.shape[:1] != (LANES,) else x[active]

    return all(unchanged(those(x), those(y)) for x, y in zip(now, earlier, strict=True))


def unchanged(new: Any, old: Any) -> bool:
    """Whether two values have the same bits."""
    if new is old:
        return True
    if not isinstance(new, (int, float, np.generic, np.ndarray)) or new.__class__ is not old.__class__:
        return False
    return np.asarray(new).tobytes() == np.asarray(old).tobytes()


_BRANCHES = ("scf.if", "cf.cond_br")


def decided(value: Any) -> Where | None:
    """Where a loaded value decides whether a warp goes on: the loop or branch whose condition is made of it. None
    where nothing is decided by it, or not here: a value that a loop or a branch hands on is not followed."""
    pending, seen = [value], set()
    while pending:
        one = pending.pop(0)
        for use in one.uses:
            user, number = use.owner.operation, use.operand_number
            if user.name == "scf.condition" and number == 0:
                return where(user.parent)
            if user.name in _BRANCHES and number == 0:
                return where(user)
            if user.name == "scf.while":
                pending.append(user.regions[0].blocks[0].arguments[number])
            elif user not in seen and not len(user.regions):
                seen.add(user)
                pending += list(user.results)
    return None
