"""What an integer surely is where an op is executed: in a thread that reaches it, in a round that its loop runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.verify import rounds
from nvdsl.verify.context import Context
from nvdsl.verify.program import Node
from nvdsl.verify.reach import Reach

_ROUNDS = 16
"""Of a loop, that are looked at."""


def first(found: list[Any], wrong: Callable[[Any], Any], reach: Reach) -> int | None:
    """The first of ``found`` (each an int, an array by threads, or None) that a thread surely has, and that is
    wrong."""
    for value in found:
        if value is None or not np.any(is_wrong := wrong(value)):
            continue
        if not isinstance(value, np.ndarray):  # the same in all threads
            return int(value)
        bad = reach.lanes & is_wrong
        if bad.any() and (not reach.conditions or np.array_equal(bad, reach.lanes)):
            return int(value[bad][0])
    return None


def values(context: Context, node: Node, value: Any, reach: Reach) -> list[Any]:
    """What ``value`` is in rounds of the loops around ``node`` that it is surely reached in: the first, and more of the
    innermost loop where its end is known."""
    threads = context.threads
    loops = [parent.op for parent, _ in node.ancestors() if parent.name in ("scf.for", "scf.while")]
    if not loops or reach.conditions:  # a condition may depend on the round
        return [threads.of(value)]
    ends = loops[0].name == "scf.for" and threads.of(loops[0].operands[1], first=True) is not None
    found, _ = rounds.values(threads, value, loops[0], _ROUNDS if ends else 1)
    return found
