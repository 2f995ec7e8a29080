"""L2 is asked for rows that blocks take later.

While the threads of a block wait for each other, and for what they loaded, the block asks memory for nothing. It asks
L2 for another row when it begins, so that memory always has work, and a block that begins with that row finds it in L2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import nvdsl as nv
from nvdsl.kernels.rows.staged import lane_of
from nvdsl.ops.memory import bulk_prefetch, prefetch

if TYPE_CHECKING:
    from nvdsl.kernels.rows.row import Row


def ask(row: Row, arrays: Sequence[nv.Array], numbers: Sequence[nv.Array] = ()) -> None:
    """For what the block takes of the row ``config.later`` bytes behind, and for that row's ``numbers``."""
    wide, x, size = row.config.wide, arrays[0], sum(each.dtype.bytes for each in arrays)
    if lane_of(row.config) == 0:
        apart = nv.f32(row.config.later) * nv.math.rcp_approx(nv.f32(row.cols * size))
        index = row.index + nv.max(nv.i32(apart), 1)
        first = row.origin + row.before - row.before_of(x, index)
        count = (nv.min(first + row.each, row.cols) - first) // wide * wide
        if (index < x.shape[0]) & (count > 0):
            for each in arrays:
                bulk_prefetch(each, (index, first), count * each.dtype.bytes)
            for each in numbers:
                prefetch(each, (index,))
