"""Rows in the registers of the threads that share them: loaded once, computed in f32, stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeAlias

import nvdsl as nv
from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.rows.config import RowsConfig

_AHEAD = 32
"""Bytes of a row for all rows that a thread has loaded ahead."""


class Row:
    """A thread's part of row number ``number`` of its batch. Threads beyond the last row load and store nothing."""

    def __init__(self, x: nv.Array, config: RowsConfig, number: int) -> None:
        rows, self.cols = x.shape
        self.config, self.number = config, number
        group = nv.block_id.x // config.cluster * (config.threads // config.lanes) + nv.thread_id.x // config.lanes
        self.row = group * config.batch + number
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

    def total(self, term: Term) -> nv.Value:
        """What ``term`` adds to a vector of totals for all parts, summed up: this thread's share."""
        total: Any = nv.vector([0.0] * self.config.wide, nv.f32)
        for step, part in enumerate(self.parts):
            total = term(self, total, step, part.to(nv.f32))
        return total.sum()


Term: TypeAlias = Callable[[Row, Any, int, Any], Any]
"""Of a row, a total, the number of a part, and the part in f32: the new total."""


def load(x: nv.Array, config: RowsConfig, missing: float) -> list[Row]:
    """The rows of a thread's batch; ``missing`` stands behind the end of each."""
    rows = [Row(x, config, number) for number in range(config.batch)]
    for row in rows:
        row.load(x, missing)
    return rows


def sums(rows: Sequence[Row], *terms: Term) -> list[tuple[Any, ...]]:
    """For each row the sums of its terms over all its elements; one exchange of the threads for all of them."""
    mine = tuple(row.total(term) for row in rows for term in terms)
    config = rows[0].config
    found = nv.cluster.sum(mine) if config.cluster > 1 else nv.block.sum(mine, width=config.lanes)
    return [found[i : i + len(terms)] for i in range(0, len(found), len(terms))]


def maxima(rows: Sequence[Row]) -> tuple[Any, ...]:
    """The greatest element of each row."""
    mine = tuple(reduce(nv.maximum, [part.to(nv.f32) for part in row.parts]).max() for row in rows)
    config = rows[0].config
    return nv.cluster.max(mine) if config.cluster > 1 else nv.block.max(mine, width=config.lanes)


def store(rows: Sequence[Row], y: nv.Array, compute: Callable[..., Any], *beside: Beside) -> None:
    """``y`` gets ``compute(row, part, *what each of beside has there)`` of each part, all f32."""
    for step in range(rows[0].config.steps):
        rest = [one.take(step) for one in beside]
        for row in rows:
            result = compute(row, row.parts[step].to(nv.f32), *rest).to(y.dtype)
            if row.exists and row.inside(step):
                y.store_vector(result, (row.row, row.column(step)))


class Beside:
    """A row for all rows: what a thread takes of it beside its parts, loaded a little ahead of its use."""

    def __init__(self, array: nv.Array, row: Row) -> None:
        self.array, self.row = array, row
        self.wide = min(row.config.wide, ALIGNMENT // array.dtype.bytes)
        self.ahead = min(max(_AHEAD // max(row.config.wide * array.dtype.bytes, 4), 1), row.config.steps)
        self.loaded: list[Any] = []

    def begin(self) -> None:
        """Load what the first steps take."""
        for step in range(self.ahead):
            self.load(step)

    def load(self, step: int) -> None:
        """Load what a step takes."""
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
