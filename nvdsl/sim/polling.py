"""Loops that poll: a turn that changes nothing, neither the loop's values nor memory, will be the same again."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvdsl.errors import Where
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
