"""Rows in shared memory: each thread copies its elements there, and reads them as often as it needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.blocks.realigned import shifted_vector
from nvdsl.kernels.rows.config import RowsConfig
from nvdsl.lang.packing import as_vector, as_words

if TYPE_CHECKING:
    from nvdsl.kernels.rows.row import Parts, Row


def widened(part: Any) -> Any:
    """A vector in f32. Of bf16, two elements at a time: one is a shift of their word, the other its upper half. Taken
    one by one, each upper half would be moved down first."""
    if part.dtype is not nv.bf16 or part.shape[0] % 2:
        return part.to(nv.f32)
    words = as_words([part], nv.bf16)
    return nv.vector([nv.bitcast(x, nv.f32) for word in words for x in (word << 16, word & -65536)])


@dataclass(frozen=True)
class Elements:
    """This thread's elements of a row in f32, access by access. ``stored``: as memory has them. ``find``: in shared
    memory, when all of them have come, the one so many columns behind the thread's first one."""

    stored: Callable[[int], Any]
    dtype: nv.DType
    find: Callable[[nv.Int], Any] | None = None

    def __call__(self, step: int) -> Any:
        return widened(self.stored(step))


def group_of(config: RowsConfig) -> Any:
    """Which of the block's groups of threads this is."""
    return nv.i32(0) if config.groups == 1 else nv.thread_id.x // config.lanes


def lane_of(config: RowsConfig) -> Any:
    """This thread's number in its group."""
    return nv.thread_id.x if config.groups == 1 else nv.thread_id.x % config.lanes


def for_groups(array: nv.Array, row: Row) -> Parts:
    """A row for all rows, a weight say, in shared memory for all groups of a block. Called by all threads."""
    config = row.config
    memory, each = nv.smem(config.part, array.dtype), min(config.wide, ALIGNMENT // array.dtype.bytes)
    piece = min(each, config.grain) if config.ragged else each

    def places(step: int, each: int) -> list[Any]:
        first = lane_of(config) * config.wide + step * config.width
        return [first + i for i in range(0, config.wide, each)]

    for step in range(config.steps):
        for i, place in enumerate(places(step, piece)):
            found, col = nv.vector([0.0] * piece, array.dtype), row.column(step) + i * piece
            if row.has(col):
                found = array.vector(col, piece) if piece > 1 else nv.vector([array[col]])
            if group_of(config) == 0:
                memory.store_vector(found, place)
    if config.groups > 1:
        nv.sync_threads()
    return lambda step: joined([widened(memory.vector(place, each)) for place in places(step, each)])


def joined(pieces: Sequence[Any]) -> Any:
    """Vectors one behind the other, as one."""
    return pieces[0] if len(pieces) == 1 else nv.vector([x for piece in pieces for x in piece])


@dataclass(frozen=True)
class Edge:
    """Of accesses that a row has a part of: the piece that this lane takes, ``grain`` elements from ``column`` on.
    ``mine``: whether it takes one, with other lanes of the warp whose thread has the access. ``piece``: its number,
    which goes on from one access to the next."""

    column: Any
    mine: Any
    piece: Any

    @staticmethod
    def of(row: Row, ends: Sequence[Any]) -> list[Edge]:
        """``ends``: columns at which the row begins, or that are behind its last one; the pieces of as many of them at
        once as a warp has lanes for."""
        each = row.config.wide // row.config.grain
        several = max(min(row.config.lanes, 32) // each, 1)
        return [Edge._at(row, ends[i : i + several], each) for i in range(0, len(ends), several)]

    @staticmethod
    def _at(row: Row, ends: Sequence[Any], each: int) -> Edge:
        config, wide, lane = row.config, row.config.wide, lane_of(row.config)
        piece = lane % 32 if config.lanes > 32 else lane
        end = ends[0]
        for number, other in enumerate(ends[1:], 1):
            end = nv.where(piece < number * each, end, other)
        behind = (end + row.before) % wide
        first = end - behind
        mine = (behind != 0) & (piece < len(ends) * each)
        if config.cluster > 1:
            mine = mine & (first >= row.origin)
        if config.lanes > 32:
            mine = mine & ((first - row.origin) // wide % config.lanes // 32 == lane // 32)
        column = first + piece % each * config.grain
        return Edge(column, row.exists & mine & row.has(column), piece)

    def load(self, arrays: Sequence[nv.Array], row: Row, missing: float) -> list[Any]:
        grain = row.config.grain
        values = [nv.vector([missing] * grain, x.dtype) for x in arrays]
        if self.mine:
            key = row.index, self.column
            values = [x.vector(key, grain) if grain > 1 else nv.vector([x[key]]) for x in arrays]
        return values


class Staged:
    """``config.slots`` slots for each group of threads. A slot has room for what the group's block has of a row of each
    of ``arrays``. A thread reads there what it copied itself, so it waits for nobody else."""

    def __init__(self, arrays: Sequence[nv.Array], config: RowsConfig) -> None:
        self.arrays, self.config = arrays, config
        slots = config.groups * config.slots
        self.memory = [nv.smem(slots * config.part, x.dtype) for x in arrays]

    def _slot(self, slot: nv.Int) -> Any:
        """Where a slot of this thread's group begins."""
        return (group_of(self.config) * self.config.slots + slot) * self.config.part

    def _place(self, slot: nv.Int, step: int) -> Any:
        """The first element of this thread's access in a slot of its group."""
        return self._slot(slot) + lane_of(self.config) * self.config.wide + step * self.config.width

    def put(self, step: int, values: Any) -> None:
        """Leave values of equally many bits where the first array's access is."""
        memory = self.memory[0]
        memory.store_vector(as_vector(as_words([values], values.dtype), memory.dtype), self._place(nv.i32(0), step))

    def put_one(self, at: nv.Int, value: Any) -> None:
        """Leave a value as element ``at`` of the group's."""
        memory = self.memory[0]
        memory[self._slot(nv.i32(0)) + at] = nv.bitcast(value[0], memory.dtype)

    def across(self, at: nv.Int, dtype: nv.DType) -> Any:
        """An access of what all threads have left, from element ``at`` of the group's on, wherever that lies."""
        memory, wide = self.memory[0], self.config.wide
        base, last = at - at % wide, self.config.part - wide
        pair = [memory.vector(self._slot(nv.i32(0)) + nv.max(nv.min(i, last), 0), wide) for i in (base, base + wide)]
        return as_vector(shifted_vector(as_words(pair, memory.dtype), at % wide * memory.dtype.bits), dtype)

    def shifted(self, base: nv.Int, shift: nv.Int, dtype: nv.DType) -> Any:
        """The same ``shift`` elements behind the access at ``base``, where both that it lies across are there."""
        memory, wide = self.memory[0], self.config.wide
        pair = [memory.vector(self._slot(nv.i32(0)) + base + i, wide) for i in (0, wide)]
        return as_vector(shifted_vector(as_words(pair, memory.dtype), shift * memory.dtype.bits), dtype)

    def fetch(self, row: Row, slot: nv.Int = 0, missing: float = 0.0) -> list[Any]:
        """Start the copies of a row (PTX ISA, cp.async), as ``config.arrivals`` groups. ``missing`` goes behind its
        end. Returns what `settle` wants before the row is read: of accesses that the row has a part of, their elements,
        which no copy moves."""
        zeros = missing == 0.0  # what cp.async writes behind the elements that it is to read
        for step in range(self.config.steps):
            place = self._place(slot, step)
            front = self.config.ragged and step == 0  # its part goes where zeros are, and no copy waits for another one
            if zeros and not front and not row.everyone(step):
                for x, memory in zip(self.arrays, self.memory, strict=True):
                    nv.cp_async(memory, place, x, row.at(step), self.config.wide, valid=row.present(step))
            elif row.everyone(step) or row.exists and row.whole(step):
                for x, memory in zip(self.arrays, self.memory, strict=True):
                    nv.cp_async(memory, place, x, row.at(step), self.config.wide)
            else:
                for memory in self.memory:
                    memory.store_vector(nv.vector([missing] * self.config.wide, memory.dtype), place)
            if self._ends_group(step):
                nv.cp_async_commit()
        return [value for edge in self._edges(row, zeros) for value in edge.load(self.arrays, row, missing)]

    def settle(self, row: Row, loaded: list[Any], slot: nv.Int = 0, missing: float = 0.0) -> None:
        """Put what `fetch` returned where the row is."""
        edges, count = self._edges(row, missing == 0.0), len(self.arrays)
        if edges:
            nv.sync_warp()
        for i, edge in enumerate(edges):
            for memory, value in zip(self.memory, loaded[i * count :], strict=False):
                place = self._slot(slot) + edge.column - row.origin
                memory.store(place, value[0] if value.shape == (1,) else value, predicate=edge.mine)
        if edges:
            nv.sync_warp()

    def _edges(self, row: Row, zeros: bool) -> list[Edge]:
        """The accesses that a row may have a part of: the first one, and the last one where no copy fills it up."""
        if not self.config.ragged:
            return []
        return Edge.of(row, [nv.i32(0)] if zeros else [nv.i32(0), row.end])

    def _ends_group(self, step: int) -> bool:
        """Where rows end anywhere, the last accesses of all threads are one group."""
        if self.config.ragged and self.config.full <= step < self.config.steps - 1:
            return False
        return step + 1 == self.config.steps or (step + 1) % nv.cdiv(self.config.steps, self.config.arrivals) == 0

    def parts(self, slot: nv.Int = 0, waited: bool = False) -> list[Elements]:
        """This thread's elements of the arrays' rows in the slot that was fetched first, when they have come: all of
        them, or with several ``config.arrivals`` (and one slot), those of an access when they are first asked for.
        ``waited``: they were waited for before."""
        if self.config.arrivals == 1 and not waited:
            nv.cp_async_wait(max(self.config.slots - 2, 0))
        pending = [sum(map(self._ends_group, range(step, self.config.steps))) - 1 for step in range(self.config.steps)]
        come: set[int] = set() if self.config.arrivals > 1 else set(pending)

        def arrived(step: int) -> None:
            if pending[step] not in come:
                nv.cp_async_wait(pending[step])
                come.update(n for n in pending if n >= pending[step])

        def reader(memory: nv.Array) -> Elements:
            def read(step: int) -> Any:
                arrived(step)
                return memory.vector(self._place(slot, step), self.config.wide)

            def find(behind: nv.Int) -> Any:
                arrived(self.config.steps - 1)
                return memory[self._place(slot, 0) + behind]

            return Elements(read, memory.dtype, find)

        return [reader(memory) for memory in self.memory]
