"""One row in the registers of the threads that share it: loaded once, computed in f32, stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import nvdsl as nv
from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.lang.packing import as_words
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.values.traced import wrap

_AHEAD = 32
"""Bytes of a row for all rows that a thread has loaded ahead."""

Parts: TypeAlias = Callable[[int], Any]
"""Of the number of an access: a vector of f32."""

Term: TypeAlias = Callable[[Any, int], Any]
"""Of a vector of totals and the number of an access: the new totals."""

Matrix = nv.Shaped[nv.Array, "m", "n"]
Vector = nv.Shaped[nv.Array, "n"]
PerRow = nv.Shaped[nv.Array, "m"]


def grid(x: nv.Array, config: RowsConfig) -> nv.Int:
    """Blocks that have a row each, or each as many as fit side by side."""
    return nv.cdiv(x.shape[0], config.groups) * config.cluster


def first_row(config: RowsConfig) -> nv.Int:
    """The row of this thread's group, where each group has one."""
    return nv.block_id.x // config.cluster * config.groups + nv.thread_id.x // config.lanes


class Row:
    """This thread's share of row ``index`` of arrays of ``shape``: ``config.steps`` accesses of ``config.wide``
    elements. Threads beyond the last row load and store nothing."""

    def __init__(self, shape: tuple[nv.Int, nv.Int], config: RowsConfig, index: nv.Int) -> None:
        self.config, self.index, self.cols = config, index, shape[1]
        self.exists = config.groups == 1 or index < shape[0]
        lane = nv.thread_id.x % config.lanes
        if config.cluster > 1:
            lane = nv.cluster_rank() * config.lanes + lane
        self.leads = lane == 0
        self.first = lane * config.wide
        self.zero: Any = None
        """0, which ptxas can't know, and which depends on what the row's threads exchanged last."""

    def column(self, step: int) -> nv.Int:
        """The first column of access number ``step``."""
        return self.first + step * self.config.stride

    def at(self, step: int) -> tuple[nv.Int, nv.Int]:
        """Where access number ``step`` begins in a matrix."""
        return self.index, self.column(step)

    def inside(self, step: int) -> nv.Bool:
        """Whether the row has elements there: known for all but the last accesses."""
        return step < self.config.full or self.column(step) < self.cols

    def only(self, step: int, values: Any, other: float = 0.0) -> Any:
        """``values`` within the row, ``other`` behind its end."""
        return values if step < self.config.full else nv.where(self.inside(step), values, other)

    def read(self, x: nv.Array, missing: float = 0.0, at: Callable[[int], Any] | None = None) -> Parts:
        """This thread's elements of an array, with ``missing`` behind the end of the row. ``at``: where those of an
        access lie, in an array that is no matrix of rows."""
        if not self.config.held:
            return lambda step: self._load(x, step, missing).to(nv.f32)
        at = at or self.at
        parts = [nv.vector([missing] * self.config.wide, x.dtype) for _ in range(self.config.steps)]
        if self.exists:
            for step in range(self.config.steps):
                if self.inside(step):
                    parts[step] = x.vector(at(step), self.config.wide)
        return lambda step: self._as_they_came(parts[step]).to(nv.f32)

    def _load(self, x: nv.Array, step: int, missing: float) -> Any:
        part = nv.vector([missing] * self.config.wide, x.dtype)
        if self.exists and self.inside(step):
            part = x.vector(self.at(step), self.config.wide)
        return part

    def _as_they_came(self, part: Any) -> Any:
        """The part, of which ptxas does not see that it is the same as before the last exchange. Else it would convert
        parts once, and keep the f32s, in twice the registers."""
        if self.zero is None or part.dtype.bits != 16 or part.shape[0] < 2:
            return part
        words = nv.vector([word ^ self.zero for word in as_words([part], part.dtype)], nv.i32)
        return wrap(llvm.bitcast(ir.VectorType.get(part.shape, part.dtype.ir), words), part.dtype)

    def _exchanged(self, found: Any) -> Any:
        if self.config.packed:
            self.zero = nv.bitcast(found, nv.i32) & nv.i32(nv.i64(self.cols) >> 32)
        return found

    def hold(self, parts: Parts) -> Parts:
        """The same, computed once where parts are held."""
        if not self.config.held:
            return parts
        made = [parts(step) for step in range(self.config.steps)]
        return lambda step: made[step]

    def rounded(self, parts: Parts, dtype: nv.DType) -> Parts:
        """The same, as an array of ``dtype`` holds it."""
        if not self.config.held:
            return lambda step: parts(step).to(dtype).to(nv.f32)
        made = [parts(step).to(dtype) for step in range(self.config.steps)]
        return lambda step: self._as_they_came(made[step]).to(nv.f32)

    def write(self, y: nv.Array, parts: Parts) -> None:
        """Store this thread's elements, converted to the array's type."""
        for step in range(self.config.steps):
            values = parts(step).to(y.dtype)
            if self.exists and self.inside(step):
                if self.config.wide * y.dtype.bytes == 1:
                    y[self.at(step)] = values[0]
                else:
                    y.store_vector(values, self.at(step))

    def put(self, y: nv.Array, value: nv.Value) -> None:
        """Store a number of the row."""
        if self.exists and self.leads:
            y[self.index] = value

    def number(self, x: nv.Array) -> Any:
        """A number of the row; 0 beyond the last one."""
        found = x.dtype(0)
        if self.exists:
            found = x[self.index]
        return found

    def total(self, term: Term) -> Any:
        """This thread's share of a sum."""
        total: Any = nv.vector([0.0] * self.config.wide, nv.f32)
        for step in range(self.config.steps):
            total = term(total, step)
        return total.sum()

    def sums(self, *mine: Any) -> tuple[Any, ...]:
        """The sums of numbers over all threads of the row; one exchange for all of them."""
        config = self.config
        found = nv.cluster.sum(mine) if config.cluster > 1 else nv.block.sum(mine, width=config.lanes)
        self._exchanged(found[0])
        return found

    def sum(self, *terms: Term) -> tuple[Any, ...]:
        """For each term its sum over the row."""
        return self.sums(*(self.total(term) for term in terms))

    def exponentials(self, parts: Parts, *more: Any) -> tuple[Any, ...]:
        """What this thread's exponentials are relative to, the greatest element of the row, the sum of all
        exponentials relative to that one, and the sums of ``more``.

        Blocks of a cluster exchange numbers once: each warp takes its own greatest element at first."""
        if self.config.cluster == 1:
            highest = self.max(parts)
            return highest, highest, *self.sums(self._exponentials(parts, highest), *more)
        mine = reduce(nv.maximum, [parts(step) for step in range(self.config.steps)]).max()
        base = nv.max(nv.warp.max(mine), nv.f32.min)  # of a warp that has nothing
        given = nv.warp.sum((self._exponentials(parts, base), *more))
        first = nv.thread_id.x % 32 == 0
        return base, *nv.cluster.reduce((base, *(nv.where(first, one, 0.0) for one in given)), _merged)

    def _exponentials(self, parts: Parts, base: Any) -> Any:
        return self.total(lambda total, step: total + nv.math.exp_approx(parts(step) - base))

    def max(self, parts: Parts) -> Any:
        """The greatest element of the row."""
        mine = reduce(nv.maximum, [parts(step) for step in range(self.config.steps)]).max()
        config = self.config
        found = nv.cluster.max(mine) if config.cluster > 1 else nv.block.max(mine, width=config.lanes)
        return self._exchanged(found)


def _merged(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """The greater of two elements, the sum of exponentials relative to it, and other sums."""
    highest = nv.max(one[0], other[0])
    total = one[1] * nv.math.exp_approx(one[0] - highest) + other[1] * nv.math.exp_approx(other[0] - highest)
    return highest, total, *(a + b for a, b in zip(one[2:], other[2:], strict=True))


class Beside:
    """A row for all rows, a weight say: what a thread takes of it, loaded a little ahead of its use."""

    def __init__(self, array: nv.Array, row: Row) -> None:
        self.array, self.row = array, row
        self.wide = min(row.config.wide, ALIGNMENT // array.dtype.bytes)
        size = max(row.config.wide * array.dtype.bytes, 4)
        self.ahead = 0 if row.config.packed else min(max(_AHEAD // size, 1), row.config.steps)
        self.loaded: dict[int, list[Any]] = {}

    def begin(self) -> Beside:
        """Load what the first accesses take."""
        for step in range(self.ahead):
            self.loaded[step] = self._load(step)
        return self

    def _load(self, step: int) -> list[Any]:
        pieces = [nv.vector([0.0] * self.wide, self.array.dtype)] * (self.row.config.wide // self.wide)
        if self.row.inside(step):
            col = self.row.column(step)
            pieces = [self.array.vector(col + i * self.wide, self.wide) for i in range(len(pieces))]
        return pieces

    def __call__(self, step: int) -> Any:
        """The elements beside access ``step``, in f32; and load what a later one takes."""
        if step not in self.loaded:
            self.loaded[step] = self._load(step)
        pieces = self.loaded.pop(step)
        if self.ahead and step + self.ahead < self.row.config.steps:
            self.loaded[step + self.ahead] = self._load(step + self.ahead)
        pieces = [piece.to(nv.f32) for piece in pieces]
        return pieces[0] if len(pieces) == 1 else nv.vector([x for piece in pieces for x in piece])
