"""A row in the registers of the threads that share it: loaded once, computed in f32, stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import nvdsl as nv
from nvdsl.kernels.rows.config import ACCESS, RowsConfig

Term: TypeAlias = Callable[[int, Any], Any]
"""Of the number of a part, and of the part in f32."""


class Row:
    """This thread's part of its row of ``x``. Threads beyond the last row load and store nothing."""

    def __init__(self, x: nv.Array, config: RowsConfig) -> None:
        rows, self.cols = x.shape
        self.config = config
        self.row = nv.block_id.x // config.cluster * config.rows_per_block + nv.thread_id.x // config.lanes
        self.exists = config.rows_per_block == 1 or self.row < rows
        lane = nv.thread_id.x % config.lanes
        if config.cluster > 1:
            lane = nv.cluster_rank() * config.lanes + lane
        self.first = lane * config.wide
        self.parts: list[Any] = []

    def load(self, x: nv.Array, missing: float) -> None:
        """The parts as they are in memory; ``missing`` behind the end."""
        parts = [nv.vector([missing] * self.config.wide, x.dtype) for _ in range(self.config.steps)]
        if self.exists:
            for step in range(self.config.steps):
                if self.inside(step):
                    parts[step] = x.vector((self.row, self.column(step)), self.config.wide)
        self.parts = parts

    def beside(self, weight: nv.Array, step: int) -> nv.Value:
        """What a row for all rows has beside the thread's part number ``step``, in f32."""
        col, wide = self.column(step), min(self.config.wide, ACCESS // weight.dtype.bytes)
        loaded = [weight.vector(col + at, wide).to(nv.f32) for at in range(0, self.config.wide, wide)]
        return loaded[0] if len(loaded) == 1 else nv.vector([x for part in loaded for x in part])

    def column(self, step: int) -> nv.Int:
        """The first column of the thread's access number ``step``."""
        return self.first + step * self.config.stride

    def inside(self, step: int) -> nv.Bool:
        """Whether the row has elements there: known for all but the last accesses."""
        return step < self.config.full or self.column(step) < self.cols

    def store(self, y: nv.Array, compute: Term) -> None:
        """``y`` gets ``compute(step, part)`` of each part, which is f32."""
        if self.exists:
            for step, part in enumerate(self.parts):
                if self.inside(step):
                    y.store_vector(compute(step, part.to(nv.f32)), (self.row, self.column(step)))

    def sum(self, *terms: Term) -> Any:
        """The sum of ``term(step, part)`` over all elements of the row; of several terms, their sums."""
        totals: list[Any] = []
        for step, part in enumerate(self.parts):
            each = [term(step, part.to(nv.f32)) for term in terms]
            totals = [a + b for a, b in zip(totals, each, strict=True)] if totals else each
        mine = tuple(total.sum() for total in totals) if len(terms) > 1 else totals[0].sum()
        return nv.cluster.sum(mine) if self.config.cluster > 1 else nv.block.sum(mine, width=self.config.lanes)

    def max(self) -> nv.Value:
        """The greatest element of the row."""
        mine = reduce(nv.maximum, [part.to(nv.f32) for part in self.parts]).max()
        return nv.cluster.max(mine) if self.config.cluster > 1 else nv.block.max(mine, width=self.config.lanes)
