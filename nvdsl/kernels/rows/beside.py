"""Rows for all rows, weights say, and what a thread takes of them.

Where rows begin anywhere in memory, an access of a row begins at any column. For each way in which rows begin there is
a copy of the weight then, so far behind that what belongs to an access is one aligned access, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import nvdsl as nv
from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.rows.config import LINE, RowsConfig
from nvdsl.kernels.rows.row import Row
from nvdsl.kernels.rows.staged import joined, widened
from nvdsl.ops.memory import prefetch

_THREADS = 128

_FIRST = 2
"""Rows whose blocks ask L2 for what belongs to all rows."""

_SHARED_BY_BLOCKS = 96 * 1024
"""Bytes of L1 beside what blocks have of rows in shared memory, or about so many."""


def _size(config: RowsConfig) -> int:
    """Elements of a copy: of all that a row's accesses may reach, from `LINE` before its first column on. Whole lines,
    as L1 reads what lies across two of them four times as slowly."""
    return config.cluster * config.part + 2 * LINE


def _wrapped(col: Any, config: RowsConfig) -> Any:
    """The column that stands where ``col`` is, before the first one perhaps."""
    return nv.where(col < 0, col + config.part, col) if config.wrapped else col


def access_to_copies(cols: int, dtypes: Sequence[nv.DType], config: RowsConfig) -> int:
    """Bytes, the most of which copies stay in L1, or 16. There is a copy for each element of an access at which the row
    may begin: of an access of 8 bytes half as many. f32 may be taken one by one where no cluster shares a row."""
    sizes = [ALIGNMENT, ALIGNMENT // 2]
    if all(dtype.bytes == 4 for dtype in dtypes):
        sizes = [ALIGNMENT, ALIGNMENT // 2, ALIGNMENT // 4] if config.cluster == 1 else sizes[:1]
    elif any(dtype.bytes == 4 for dtype in dtypes):
        return ALIGNMENT
    for size in sizes:
        if sum(cols * x.bytes * nv.cdiv(_each(x, config, size), config.grain) for x in dtypes) <= _SHARED_BY_BLOCKS:
            return size
    return ALIGNMENT


def _each(dtype: nv.DType, config: RowsConfig, size: int) -> int:
    """Elements of an access of so many bytes."""
    return min(config.wide, size // dtype.bytes)


Copies: TypeAlias = tuple[nv.Array, int]
"""Of a row for all rows: where they lie, and from which element on."""


def copies(arrays: Sequence[nv.Array | None], config: RowsConfig) -> list[Copies | None]:
    """In a host function: of each array the copies, one behind the other. Number s has element i of the array in place
    ``LINE + i + s * config.grain``, and 0 before and behind. What a thread takes in several pieces lies apart: first
    all first pieces, then all second ones, so that a warp's are whole lines. The kernel behind it may begin at once."""
    given = [x for x in arrays if x is not None]
    each = [_each(x.dtype, config, config.copies) for x in given]
    counts = [nv.cdiv(n, config.grain) for n in each]
    cols, size = given[0].shape[0], _size(config)
    if len({x.dtype for x in given}) == 1 and each[0] < config.wide:  # an address for each piece, not for each array
        memory = nv.empty((sum(counts) * size,), given[0].dtype)
        outs = [(memory, sum(counts[:i]) * size) for i in range(len(given))]
    else:
        outs = [(nv.empty((count * size,), x.dtype), 0) for x, count in zip(given, counts, strict=True)]

    @nv.kernel(grid=(nv.cdiv(size, _THREADS * config.wide), max(counts), len(given)), block=_THREADS)
    def shift() -> None:
        nv.griddep_launch_dependents()
        access = nv.block_id.x * _THREADS + nv.thread_id.x
        first = access * config.wide
        for number, (x, (out, begin)) in enumerate(zip(given, outs, strict=True)):
            if nv.block_id.z == number and nv.block_id.y < counts[number] and first < size:
                values = []
                for i in range(config.wide):
                    col, value = _wrapped(first + i - LINE - nv.block_id.y * config.grain, config), x.dtype(0)
                    if (col >= 0) & (col < cols):
                        value = x[col]
                    values.append(value)
                wide = each[number]
                at, apart = begin + nv.block_id.y * size + access * wide, size // config.wide * wide
                for i in range(config.wide // wide):
                    out.store_vector(nv.vector(values[i * wide : (i + 1) * wide]), at + i * apart)

    shift()
    made = iter(outs)
    return [None if x is None else next(made) for x in arrays]


class Beside:
    """A row for all rows, a weight say, or with ``config.copies`` its copies: what a thread takes of it.
    ``config.ahead`` bytes of it are loaded ahead of their use: a load waits behind the store before it otherwise, at
    each access once more."""

    def __init__(self, given: nv.Array | Copies, row: Row) -> None:
        self.array, self.begins = given if isinstance(given, tuple) else (given, 0)
        self.row, config = row, row.config
        self.wide = _each(self.array.dtype, config, config.copies or ALIGNMENT)
        if config.ragged and not config.copies:
            self.wide = min(self.wide, config.grain)
        size = nv.cdiv(config.wide, self.wide) * max(self.wide * self.array.dtype.bytes, 4)  # of registers
        self.ahead = min(config.ahead // size, config.steps)
        self.loaded: dict[int, list[Any]] = {}
        self.starts: list[Any] = self._starts() if config.copies else []

    def _starts(self) -> list[Any]:
        """Where the copy that fits the row has the pieces that belong to the thread's first access; where there is one
        piece, what belongs to column 0: counted from the thread's own column, as the row itself is, addresses take
        fewer registers."""
        row, wide, size = self.row, self.wide, _size(self.row.config)
        pieces = row.config.wide // wide
        copy = row.before % wide // row.config.grain * size
        if pieces == 1:
            return [nv.index(LINE + row.before % wide + copy)]
        access = nv.index(LINE + row.first + row.before) // pieces
        behind = [i - row.before // wide for i in range(pieces)]
        return [nv.index(copy + i % pieces * (size // pieces) + i // pieces * wide) + access for i in behind]

    def ask(self) -> None:
        """Let the blocks of the first rows ask L2 for it: all that begin with them would wait for memory once more when
        their rows have come. Copies are there: a kernel has just written them."""
        row, config = self.row, self.row.config
        if not config.copies and row.index < _FIRST:
            for step in range(self.ahead, config.steps):
                if row.has(row.column(step)):
                    prefetch(self.array, (row.column(step),))

    def begin(self) -> None:
        """Load what the first accesses take."""
        for step in range(self.ahead):
            self.loaded[step] = self._load(step)

    def _load(self, step: int) -> list[Any]:
        """Beyond the row other elements, which nobody uses: a branch would keep loads behind it."""
        row, found = self.row, []
        for i in range(0, row.config.wide, self.wide):
            col = row.place(step) + i
            if len(self.starts) == 1:
                col = self.starts[0] + col
            elif row.config.copies:
                col = self.starts[i // self.wide] + (self.begins + step * row.config.width // len(self.starts))
            elif not row.full(step):
                col = _wrapped(col, row.config) if step == 0 else col
                col = nv.min(col, row.cols - self.wide)
                col = nv.max(col, 0) if row.config.frame else col
            found.append(self.array.vector(col, self.wide) if self.wide > 1 else nv.vector([self.array[col]]))
        return found

    def __call__(self, step: int) -> Any:
        """The elements beside access ``step``, in f32; and load what a later one takes."""
        if step not in self.loaded:
            self.loaded[step] = self._load(step)
        pieces = self.loaded.pop(step)
        if self.ahead and step + self.ahead < self.row.config.steps:
            self.loaded[step + self.ahead] = self._load(step + self.ahead)
        return joined([widened(piece) for piece in pieces])
