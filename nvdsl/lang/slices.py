"""What a subscript takes of an axis: one index, or every so many elements from a start on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.ir.linear import linear
from nvdsl.mlir import ir

if TYPE_CHECKING:
    from nvdsl.values.typing import Int


@dataclass(frozen=True)
class Part:
    """``count`` elements from ``start`` on, ``step`` apart; ``is_index``: one element, whose axis is dropped."""

    start: Int
    count: Int
    step: int = 1
    is_index: bool = False

    @property
    def extent(self) -> int:
        """``count``, of an axis whose extent is known."""
        assert isinstance(self.count, int)
        return self.count


def part(key: Int | slice, axis: int, extent: Int, fix: str) -> Part:
    """Which part of an axis of ``extent`` elements ``key`` is.

    A start may be traced, and a stop that is so many elements behind it: ``x[row : row + 32]``. The extent of a part of
    a dynamic axis may be traced, too. Such a part may reach past the axis: each access is checked. Raises TraceError
    for what has no count that is known while tracing, is empty, steps backwards or surely leaves the axis. ``fix``:
    what to write where the count is not known.
    """
    if not isinstance(key, slice):
        return Part(key, 1, is_index=True)
    step: Any = 1 if key.step is None else key.step
    start = 0 if key.start is None else key.start
    stop = extent if key.stop is None else key.stop
    shown = f"[{':'.join(_shown(x) for x in (key.start, key.stop, key.step)[: 3 if key.step is not None else 2])}]"
    if not isinstance(step, int | np.integer) or step < 1:
        raise trace_error(
            f"a slice {shown}",
            rule="a view steps forward by a number that is known while tracing: 1 or more",
            fix="index the elements in the order that you want them: x[n - 1 - i]",
        )
    distance = linear(stop).plus(linear(start), -1)
    if distance.terms and isinstance(extent, ir.Value):
        return Part(start, _count(start, stop, int(step)), int(step))
    if distance.terms:
        raise trace_error(
            f"a slice {shown} of axis {axis}, an extent of which only the kernel knows",
            rule="a view's extents are known while tracing; its start may be traced: x[row : row + 32]",
            fix=fix,
        )
    count = -(-distance.constant // step)
    last = stop if isinstance(stop, int) else 0
    if count < 1 or (isinstance(start, int) and start < 0) or isinstance(extent, int) and extent < last:
        raise trace_error(
            f"a slice {shown} of axis {axis}, which has {extent if isinstance(extent, int) else 'a dynamic number of'} "
            "elements",
            rule="a view is not empty and lies within its array; negative indices don't wrap in a kernel",
            fix=f"start at {extent + start}"
            if isinstance(start, int) and isinstance(extent, int) and start < 0
            else "check the slice's start and stop",
        )
    return Part(start, int(count), int(step))


def _count(start: Int, stop: Int, step: int) -> Int:
    """How many elements a part has, where that is traced."""
    distance = stop if isinstance(start, int) and start == 0 else stop - start
    return distance if step == 1 else -(-distance // step)


def _shown(x: Any) -> str:
    return "" if x is None else "..." if isinstance(x, ir.Value) else str(x)
