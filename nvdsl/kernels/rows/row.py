"""One row and the threads that share it: loaded once, computed in f32, stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, TypeAlias

import nvdsl as nv
from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.rows import apart, ends, later, streams
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.kernels.rows.exchange import Exchange
from nvdsl.kernels.rows.staged import Elements, Staged, group_of, lane_of, widened

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


class Row:
    """This thread's share of row ``index`` of arrays like ``x``: ``config.steps`` accesses of ``config.wide`` elements.
    The columns of its block are those from ``origin``, ``first`` of its first thread, to ``end``. Threads beyond the
    last row load and store nothing."""

    def __init__(self, x: nv.Array, config: RowsConfig, index: nv.Int) -> None:
        self.config, self.index, self.cols = config, index, nv.i32(x.shape[1])
        self.exchange: Exchange | None = None
        self.staged: Staged | None = None
        self.numbers: list[Any] = []
        self.exists = config.groups == 1 or index < x.shape[0]
        begin, self.end, self.each = nv.i32(0), self.cols, self.cols + config.slack
        self.before = before = self.before_of(x, index)
        if config.cluster > 1:
            self.each = nv.cdiv(self.cols + config.slack, config.cluster * config.unit) * config.unit
            begin = nv.min(nv.cluster_rank() * self.each, self.cols + config.slack)
            self.end = nv.min(begin + self.each - before, self.cols)
        self.origin = begin - before
        self.first = self.origin + lane_of(config) * config.wide
        self.leads = begin + lane_of(config) * config.wide == 0

    def before_of(self, x: nv.Array, index: nv.Int) -> Any:
        """What the start of a row is behind a multiple of the frame, which is a power of two."""
        frame = self.config.frame
        return nv.i32(index) % frame * (nv.i32(x.strides[0]) % frame) % frame if frame else nv.i32(0)

    @staticmethod
    def of_group(x: nv.Array, config: RowsConfig) -> Row:
        """The row of this thread's group, where each group has one."""
        row = Row(x, config, nv.block_id.x // config.cluster * config.groups + group_of(config))
        if config.cluster > 1:
            row.exchange = Exchange(config)
        return row

    def column(self, step: int) -> nv.Int:
        """The first column of access number ``step``: before the row, perhaps, where ``config.frame`` is given."""
        return self.first + step * self.config.width

    def place(self, step: int) -> nv.Int:
        """The same as an index of 64 bits: addresses are one of the thread's and a constant of the access then. In a
        loop over rows such a place would take registers that sums need."""
        if self.config.slots > 1:
            return self.column(step)
        return nv.index(self.first) + step * self.config.width

    def at(self, step: int) -> tuple[nv.Int, nv.Int]:
        """Where access number ``step`` begins in a matrix."""
        return self.index, self.place(step)

    def full(self, step: int) -> bool:
        """Whether it is known that the row has all elements of the access, in each thread."""
        return step < self.config.full and (step > 0 or not self.config.frame)

    def everyone(self, step: int) -> bool:
        """The same, where it is known that there is a row, too."""
        return self.exists is True and self.full(step)

    def whole(self, step: int) -> nv.Bool:
        """Whether the row has all elements of the access."""
        if self.full(step):
            return True
        col = self.column(step)
        if not self.config.frame:
            return col < self.end
        return (col >= 0) & (col + self.config.wide <= self.end)

    def part(self, step: int) -> nv.Int:
        """How many elements of the access the row has: the last ones of its first access, the first ones of others."""
        wide, col = self.config.wide, self.column(step)
        if step == 0 and self.config.frame:
            return nv.max(nv.min(col + wide, wide), 0)
        return nv.max(nv.min(self.end - col, wide), 0)

    def present(self, step: int) -> nv.Int:
        """How many elements of the access are the row's, if the first one is."""
        wide, col = self.config.wide, self.column(step)
        count = nv.i32(wide) if self.full(step) else nv.max(nv.min(self.end - col, wide), 0)
        there = self.exists if self.full(step) or not self.config.frame else self.exists & (col >= 0)
        return count if there is True else nv.where(there, count, 0)

    def has(self, column: nv.Int) -> nv.Bool:
        """Whether the block has that column of the row, which may lie before it."""
        return (column >= 0) & (column < self.end)

    def only(self, step: int, values: Any, other: float = 0.0) -> Any:
        """``values`` within the row, ``other`` elsewhere."""
        if self.full(step):
            return values
        if not self.config.ragged:
            return nv.where(self.whole(step), values, other)
        there = ends.within(self, step)
        return nv.vector([nv.where(one, value, other) for one, value in zip(there, values, strict=True)])

    def read(
        self,
        *arrays: nv.Array,
        missing: float = 0.0,
        numbers: Sequence[nv.Array] = (),
        meanwhile: Callable[[], None] = lambda: None,
        policy: Any = None,
    ) -> list[Elements]:
        """This thread's elements of arrays, with ``missing`` behind the end of the row. Once for each row.
        ``numbers``: of each row one, which ``self.numbers`` has then. ``meanwhile``: what begins while they are on
        their way. ``policy``: of L2, for rows that registers hold (`streams`)."""
        staged = self.staged = Staged(arrays, self.config) if self.config.keep == "shared" else None
        held: list[list[Any]] = []
        loaded: list[Any] = []
        if staged is not None:
            loaded = staged.fetch(self, missing=missing)
        elif self.config.keep == "registers":
            steps = range(self.config.steps + self.config.wrapped)
            held = [[self._load(x, missing, step, policy) for step in steps] for x in arrays]
        # behind the row's copies: those may stand behind branches, and numbers would be waited for before; and ahead of
        # the branch in which L2 is asked: behind it ptxas loads them when the row has come
        self.numbers = [self.number(x) for x in numbers]
        if self.config.later:
            later.ask(self, arrays, numbers if staged is not None else ())
        meanwhile()
        if staged is not None:
            staged.settle(self, loaded, missing=missing)
        if self.exchange is not None:
            self.exchange.meet()
        if staged is not None:
            return staged.parts()
        if held:
            cut = [ends.all_cut(self, parts, missing) for parts in held]
            return [Elements(parts.__getitem__, x.dtype) for x, parts in zip(arrays, cut, strict=True)]
        again = lambda x, step: ends.cut(self, self._load(x, missing, step), step, missing)  # noqa: E731
        return [Elements(partial(again, x), x.dtype) for x in arrays]

    def _load(self, x: nv.Array, missing: float, step: int, policy: Any = None) -> Any:
        if self.config.ragged and not self.full(step):
            return ends.load(self, x, step, missing, policy)
        part = nv.vector([missing] * self.config.wide, x.dtype)
        if self.exists and self.whole(step):
            part = streams.vector(x, self.at(step), self.config.wide, policy)
        return part

    def hold(self, parts: Parts) -> Parts:
        """The same, computed once where registers hold a thread's part."""
        if self.config.keep != "registers":
            return parts
        made = [parts(step) for step in range(self.config.steps)]
        return lambda step: made[step]

    def rounded(self, parts: Parts, dtype: nv.DType) -> Parts:
        """The same, as an array of ``dtype`` holds it."""
        if isinstance(parts, Elements) and parts.dtype is dtype:
            return parts
        return self.hold(lambda step: parts(step).to(dtype).to(nv.f32))

    def write(self, y: nv.Array, parts: Parts, but: apart.One | None = None) -> None:
        """Store this thread's elements, converted to the array's type. ``but``: one that has another value."""
        self.read_anew()
        if self.config.apart:
            apart.write(self, y, parts, but)
            return
        kept = ends.Kept(self, y.dtype) if self.config.ragged else None
        for step in range(self.config.steps):
            self.store(y, step, parts(step), kept)
        if kept is not None:
            kept.store(y)
            if but is not None:
                nv.sync_warp()  # another thread may have stored what ``but`` overwrites
        if but is not None and but.is_mine:
            y[self.index, but.column] = but.value

    def store(self, y: nv.Array, step: int, values: Any, kept: ends.Kept | None = None) -> None:
        """Those of one access. ``kept``: where those of one in part wait, instead of being stored piece by piece."""
        values = values.to(y.dtype)
        if self.everyone(step):
            self.store_access(y, self.place(step), values)
        elif self.config.wide * y.dtype.bytes < ALIGNMENT:  # of many small ones the predicates take registers
            if self.exists and self.whole(step):
                self.store_access(y, self.place(step), values)
        else:
            self.store_access(y, self.place(step), values, self.exists & self.whole(step))
        if not self.config.ragged or self.full(step):
            return
        if kept is not None:
            kept.keep(step, values)
            return
        count = self.part(step)
        if self.exists & (count > 0) & (count < self.config.wide):  # of a thread or two: the other warps go on
            for piece, at, there in ends.pieces(values, count, self.config.grain, front=step == 0):
                self.store_access(y, self.column(step) + at, piece, there)

    def store_access(self, y: nv.Array, column: nv.Int, values: Any, predicate: Any = None) -> None:
        """With ``predicate`` one instruction: a branch in a loop that keeps sums takes 30 registers."""
        one = values.shape[0] * y.dtype.bytes == 1
        if predicate is not None:
            y.store((self.index, column), values[0] if one else values, predicate=predicate)
        elif one:
            y[self.index, column] = values[0]
        else:
            y.store_vector(values, (self.index, column))

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

    def total(self, term: Term, again: bool = False) -> Any:
        """This thread's share of a sum. ``again``: behind another pass, without a barrier between."""
        self.read_anew(again)
        total: Any = nv.vector([-0.0] * self.config.wide, nv.f32)  # x + -0.0 is x, so that nothing is added to it
        for step in range(self.config.steps):
            total = term(total, step)
        return total.sum()

    def sums(self, *mine: Any) -> tuple[Any, ...]:
        """The sums of numbers over all threads of the row; one exchange for all of them."""
        if self.exchange is None:
            return nv.block.sum(mine, width=self.config.lanes)
        return self.exchange.sums(mine)

    def sum(self, *terms: Term, meanwhile: Callable[[], None] = lambda: None) -> tuple[Any, ...]:
        """For each term its sum over the row. ``meanwhile``: what begins before threads wait for each other."""
        mine = [self.total(term) for term in terms]
        meanwhile()
        return self.sums(*mine)

    def moments(self, parts: Parts, meanwhile: Callable[[], None] = lambda: None) -> tuple[Any, Any]:
        """The mean of a row and the sum of squared deviations from it, with one pass and one exchange.

        A warp adds up differences from the mean of its first access. If that mean is far from the warp's, the first
        access itself deviates, so the sum of squares is at most ``steps`` times what is left of it. In the same way
        the row's are those of differences from the first warp's mean of its first access.
        """
        assert self.exchange is not None
        count, base = self._count(self.config.steps), nv.warp.sum(self.only(0, parts(0)).sum())
        base = base * nv.math.rcp_approx(nv.max(self._count(1), 1.0))  # of a warp that has nothing

        self.read_anew()
        total: Any = nv.vector([0.0] * self.config.wide, nv.f32)
        squares = total
        for step in range(self.config.steps):
            apart = self.only(step, parts(step) - base)
            total, squares = total + apart, nv.math.fma(apart, apart, squares)
        total, squares = nv.warp.sum((total.sum(), squares.sum()))
        meanwhile()
        taken = self.exchange.of_all((base, total, squares, count), [0.0] * 4)
        centre = self.exchange.first()
        totals, squared = [], []
        for other, sum_, square, size in zip(*taken, strict=True):
            off = other - centre
            totals.append(nv.math.fma(off, size, sum_))
            squared.append(nv.math.fma(off, totals[-1] + sum_, square))
        total, squares = self.exchange.sum(totals, squared)
        apart = total * (1.0 / nv.f32(self.cols))
        squares = squares - total * apart
        return centre + apart, nv.where(squares < 0.0, 0.0, squares)  # NaN stays

    def _count(self, steps: int) -> Any:
        """Elements that the warp has in its first accesses."""
        some, known = 32 * self.config.wide, sum(map(self.full, range(steps)))
        if known == steps:
            return nv.f32(some * steps)
        mine = nv.i32(some * known)
        for step in range(steps):
            if not self.full(step):
                col = self.column(step) - nv.thread_id.x % 32 * self.config.wide  # the warp's first one
                mine += nv.max(nv.min(col + some, self.end) - nv.max(col, 0), 0)
        return nv.f32(mine)

    def highest(self, parts: Parts) -> Any:
        """The greatest of this thread's elements. Those of 16 bits are compared two at a time, as memory has them."""
        self.read_anew()
        each = parts.stored if isinstance(parts, Elements) else parts
        values = reduce(nv.maximum, (each(step) for step in range(self.config.steps)))
        while (half := values.shape[0] // 2) > 1:
            low, high = (nv.vector([values[i] for i in range(first, first + half)]) for first in (0, half))
            values = nv.maximum(low, high)
        return widened(values).max()

    def max(self, parts: Parts) -> Any:
        """The greatest element of the row."""
        mine = self.highest(parts)
        if self.exchange is None:
            return nv.block.max(mine, width=self.config.lanes)
        return self.exchange.max(mine)

    def read_anew(self, again: bool = False) -> None:
        """A pass over the row begins, which reads its elements in shared memory, or in global memory where nothing
        keeps them. Where there is no barrier between two passes, as in a block of several warps ``again`` says, the
        compiler would keep them in registers instead, converted to f32."""
        if self.config.keep != "registers" and (again or self.config.lanes <= 32 or self.config.cluster > 1):
            nv.sync_warp()
