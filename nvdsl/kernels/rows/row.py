"""A row in the registers of the threads that share it: loaded once, computed in f32, stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import nvdsl as nv
from nvdsl.kernels.rows.config import ACCESS, RowsConfig

_AHEAD = 32
"""Bytes of a row for all rows that a thread has loaded ahead."""

Term: TypeAlias = Callable[[Any, int, Any], Any]
"""Of a total, of the number of a part, and of the part in f32: the new total."""


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

    def column(self, step: int) -> nv.Int:
        """The first column of the thread's access number ``step``."""
        return self.first + step * self.config.stride

    def inside(self, step: int) -> nv.Bool:
        """Whether the row has elements there: known for all but the last accesses."""
        return step < self.config.full or self.column(step) < self.cols

    def store(self, y: nv.Array, compute: Callable[..., Any], *beside: Beside) -> None:
        """``y`` gets ``compute(part, *what each of beside has there)`` of each part, all f32."""
        for step, part in enumerate(self.parts):
            result = compute(part.to(nv.f32), *[one.take(step) for one in beside]).to(y.dtype)
            if self.exists and self.inside(step):
                y.store_vector(result, (self.row, self.column(step)))

    def sum(self, *terms: Term) -> Any:
        """What ``term(total, step, part)`` adds to a vector of totals, for all parts of the row, summed up; of several
        terms, their sums."""
        totals: list[Any] = [nv.vector([0.0] * self.config.wide, nv.f32) for _ in terms]
        for step, part in enumerate(self.parts):
            totals = [term(total, step, part.to(nv.f32)) for term, total in zip(terms, totals, strict=True)]
        mine = tuple(total.sum() for total in totals) if len(terms) > 1 else totals[0].sum()
        return nv.cluster.sum(mine) if self.config.cluster > 1 else nv.block.sum(mine, width=self.config.lanes)

    def max(self) -> nv.Value:
        """The greatest element of the row."""
        mine = reduce(nv.maximum, [part.to(nv.f32) for part in self.parts]).max()
        return nv.cluster.max(mine) if self.config.cluster > 1 else nv.block.max(mine, width=self.config.lanes)


class Beside:
    """A row for all rows: what a thread takes of it beside its parts, loaded a few steps ahead of its use."""

    def __init__(self, array: nv.Array, row: Row) -> None:
        self.array, self.row = array, row
        self.wide = min(row.config.wide, ACCESS // array.dtype.bytes)
        self.ahead = min(max(_AHEAD // max(row.config.wide * array.dtype.bytes, 4), 1), row.config.steps)
        self.loaded: list[Any] = []

    def begin(self) -> None:
        """Load what the first steps take."""
        for step in range(self.ahead):
            self.load(step)

    def load(self, step: int) -> None:
        pieces = [nv.vector([0.0] * self.wide, self.array.dtype)] * (self.row.config.wide // self.wide)
        if self.row.inside(step):
            col = self.row.column(step)
            pieces = [self.array.vector(col + i * self.wide, self.wide) for i in range(len(pieces))]
        self.loaded.append(pieces)

    def take(self, step: int) -> Any:
        """The elements beside the part of a step, in f32; and load what a later one takes."""
        if step + self.ahead < self.row.config.steps:
            self.load(step + self.ahead)
        pieces = [piece.to(nv.f32) for piece in self.loaded[step]]
        return pieces[0] if len(pieces) == 1 else nv.vector([x for piece in pieces for x in piece])
