"""Loops that poll: a turn that changes nothing, neither the loop's values nor memory, will be the same again; and what
decides that one is over."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.ir.location import where
from nvdsl.sim.machine import Waiting


def polling(at: Where | None, seen: int | None, turns: int = 1) -> Waiting:
    """What a loop waits for after some ``turns``. ``seen``: `Machine.changes` before a turn that changed nothing; None:
    its turns differ, and may come to an end by themselves."""
    return Waiting(lambda: False, "a condition that it polls", at, spins=True, seen=seen, turns=turns)


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
