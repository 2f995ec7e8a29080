"""How a tile of a product with quantized weights leaves: teams and the blocks of a cluster share K, and their sums are
added in shared memory, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.linear_combination import activated

ROW = 4
"""Elements between rows of sums in shared memory: threads that write neighbouring columns of several rows meet
different banks."""
VECTOR = 4
"""Elements that a thread adds and stores at a time."""
AT_ONCE = 4
"""Vectors that a thread reads before it stores the first one."""


class TileSums:
    """The sums of a tile of ``rows`` x ``cols`` of ``out``: of ``teams``, and of the ``split`` blocks of a cluster.
    ``bias``: of (N,), or None. ``vectors``: whether rows of ``out`` are whole 16 bytes. Made by all threads."""

    def __init__(
        self, out: nv.Array, rows: int, cols: int, teams: int, split: int, *, bias: nv.Array | None,
        activation: Callable[[Any], Any] | None, vectors: bool,
    ) -> None:  # fmt: skip
        self.out, self.rows, self.cols, self.teams, self.split = out, rows, cols, teams, split
        self.bias, self.activation, self.width = bias, activation, VECTOR if vectors else 1
        self.memory = nv.smem((teams * rows, cols + ROW), nv.f32)

    @staticmethod
    def bytes(rows: int, cols: int, teams: int) -> int:
        """Of shared memory."""
        return teams * rows * (cols + ROW) * 4

    def store(self, row: Any, col: Any, rank: Any, threads: int, first: Any = 0) -> None:
        """Add and store what all threads have written, as the tile at (``row``, ``col``) of the result: columns from
        ``first`` on. Each block of a cluster stores a part."""
        if self.split > 1:
            nv.cluster_sync()
        else:
            nv.sync_threads()
        units, N = self.cols // self.width, self.out.shape[-1]
        count = nv.min(self.rows, self.out.shape[-2] - row) * units
        start, step = rank * threads + nv.thread_id.x, self.split * threads
        most = min(nv.cdiv(self.rows * units, step), AT_ONCE)
        for number in nv.range(start, count, most * step, unroll=False):
            numbers = [number + i * step for i in range(most)]
            places = [divided(nv.min(one, count - 1), units, self.width) for one in numbers]
            found = [self._sums(r, c) for r, c in places]  # before a branch, so that none waits for another one
            for one, (r, c), values in zip(numbers, places, found, strict=True):
                if (one < count) & (first <= col + c) & (col + c < N):
                    self._store(values, row + r, col + c)
        if self.split > 1:
            nv.cluster_sync()  # a block's memory is there until the others have read it

    def _sums(self, r: Any, c: Any) -> list[Any]:
        found = [nv.f32(0)] * self.width
        for block in range(self.split):
            memory = self.memory if self.split == 1 else self.memory.at(block)
            for team in range(self.teams):
                at = team * self.rows + r, c
                part = list(memory.vector(at, self.width)) if self.width > 1 else [memory[at]]
                found = [x + y for x, y in zip(found, part, strict=True)]
        return found

    def _store(self, values: list[Any], row: Any, col: Any) -> None:
        if self.bias is not None:
            values = [x + nv.f32(self.bias[col + i]) for i, x in enumerate(values)]
        if self.activation is not None:
            values = [activated(self.activation, x) for x in values]
        if self.width > 1:
            self.out.store_vector(nv.vector([self.out.dtype(x) for x in values]), (row, col))
        else:
            self.out[row, col] = values[0]


def divided(number: Any, units: int, width: int) -> tuple[Any, Any]:
    """The row and the column of a vector."""
    return number // units, number % units * width
