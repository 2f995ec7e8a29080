"""Accesses that have elements of a row in part: its first one and its last one, where rows begin anywhere in memory.

What there is of an access that begins or ends at a multiple of its size is one piece of a half of its elements or none,
one of a quarter or none, and so on: the bits of their number say which. Each lies at a multiple of its own size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nvdsl as nv


def pieces(count: nv.Int, wide: int, grain: int, front: bool) -> Iterator[tuple[int, Any, Any]]:
    """Of the first ``count`` elements of an access, or with ``front`` of the last ones of its ``wide``: the size of a
    piece, where it begins, and whether it is there. ``grain``: of which ``count`` is a multiple. An access that has
    all of its elements, or none, has no pieces."""
    size = wide // 2
    while size >= grain:
        yield size, wide - (count & -size) if front else count & -2 * size, (count & size) != 0
        size //= 2


def of_vector(values: Any, count: nv.Int, grain: int, front: bool) -> Iterator[tuple[Any, Any, Any]]:
    """The same of a vector: the piece, where it begins, and whether it is there."""
    wide = values.shape[0]
    for size, at, there in pieces(count, wide, grain, front):
        low, high = (nv.vector([values[k] for k in range(i, i + size)]) for i in (0, size))
        piece, other = (high, low) if front else (low, high)
        yield piece, at, there
        values = nv.where(there, other, piece)
