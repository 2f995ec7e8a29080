"""Rows that are written where they begin elsewhere behind 16 bytes than those that are read.

Results take the place of what was read, in shared memory. Each access to memory lies across two accesses there,
whatever threads left them, and is put together of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.rows.staged import lane_of

if TYPE_CHECKING:
    from nvdsl.kernels.rows.row import Parts, Row


@dataclass(frozen=True)
class One:
    """An element of a row: whether it is in this thread's part, its column, its value."""

    is_mine: Any
    column: Any
    value: Any


def write(row: Row, y: nv.Array, parts: Parts, but: One | None) -> None:
    """Store all threads' elements, converted to the type of ``y``. ``but``: one that has another value."""
    assert row.staged is not None
    config, wide = row.config, row.config.wide
    for step in range(config.steps):
        row.staged.put(step, parts(step).to(y.dtype))
        nv.sync_warp()  # or the compiler would load all of a weight before
    if but is not None and but.is_mine:
        row.staged.put_one(but.column - row.origin, nv.vector([but.value]).to(y.dtype))
    if config.lanes > 32:
        nv.sync_threads()
    before = nv.i32(row.index) % wide * (nv.i32(y.strides[0]) % wide) % wide
    begin = nv.max(row.origin, 0)
    first = begin - (begin + before) % wide + lane_of(config) * wide
    shift = (first - row.origin) % wide
    for step in range(config.steps + 1):
        nv.sync_warp()  # or it would load all of them before
        if row.exists is True and 1 <= step <= config.full - 2:  # behind the first element of the row, all threads'
            values = row.staged.shifted(first - row.origin - shift + step * config.width, shift, y.dtype)
            row.store_access(y, nv.index(first) + step * config.width, values)
            continue
        col = first + step * config.width
        values = row.staged.across(col - row.origin, y.dtype)
        row.store_access(y, col, values, row.exists & (col >= begin) & (col + wide <= row.end))
        if row.exists & (col < row.end) & ((col < begin) | (col + wide > row.end)):  # of a thread or two
            for i in range(wide):
                there = (col + i >= begin) & (col + i < row.end)
                row.store_access(y, col + i, nv.vector([values[i]]), there)
