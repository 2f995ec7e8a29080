"""Rows in shared memory: each thread copies its elements there, and reads them as often as it needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import nvdsl as nv
from nvdsl.kernels.arguments import ALIGNMENT
from nvdsl.kernels.rows import ends
from nvdsl.kernels.rows.config import COPY_BYTES, RowsConfig
from nvdsl.lang.packing import as_words

if TYPE_CHECKING:
    from nvdsl.kernels.rows.row import Parts, Row


def widened(part: Any) -> Any:
    """A vector in f32. Of bf16, two elements at a time: one is a shift of their word, the other its upper half. Taken
    one by one, each upper half would be moved down first."""
    if part.dtype is not nv.bf16 or part.shape[0] % 2:
        return part.to(nv.f32)
    words = as_words([part], nv.bf16)
    return nv.vector([nv.bitcast(x, nv.f32) for word in words for x in (word << 16, word & -65536)])


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


class Staged:
    """``config.slots`` slots for each group of threads. A slot has room for what the group's block has of a row of each
    of ``arrays``. A thread reads there what it copied itself, so it waits for nobody else."""

    def __init__(self, arrays: Sequence[nv.Array], config: RowsConfig) -> None:
        self.arrays, self.config = arrays, config
        slots = config.groups * config.slots
        self.memory = [nv.smem(slots * config.part, x.dtype) for x in arrays]

    def _place(self, slot: nv.Int, step: int) -> Any:
        """The first element of this thread's access in a slot of its group."""
        slot = group_of(self.config) * self.config.slots + slot
        first = slot * self.config.part + lane_of(self.config) * self.config.wide
        return first + step * self.config.width

    def fetch(self, row: Row, slot: nv.Int = 0, missing: float = 0.0) -> Callable[[], None]:
        """Start the copies of a row (PTX ISA, cp.async), as ``config.arrivals`` groups. ``missing`` goes behind its
        end. Returns what is to be called before the row is read: there are single elements, which no copy moves."""
        single: list[tuple[Any, nv.Array, Any, Any]] = []
        zeros = missing == 0.0  # what cp.async writes behind the elements that it is to read
        for step in range(self.config.steps):
            place = self._place(slot, step)
            front = self.config.ragged and step == 0  # its pieces go where zeros are, and no copy waits for another one
            if zeros and not front and not row.everyone(step):
                for x, memory in zip(self.arrays, self.memory, strict=True):
                    nv.cp_async(memory, place, x, row.at(step), self.config.wide, valid=row.present(step))
            elif row.everyone(step) or row.exists and row.whole(step):
                for x, memory in zip(self.arrays, self.memory, strict=True):
                    nv.cp_async(memory, place, x, row.at(step), self.config.wide)
            else:
                for memory in self.memory:
                    memory.store_vector(nv.vector([missing] * self.config.wide, memory.dtype), place)
            if front:
                single += self._fetch_end(row, slot, nv.i32(0), row.part(0), front=True)
            if self.config.ragged and not zeros and step + 1 == self.config.steps:
                last = nv.max(row.end - 1 - row.first, 0) // self.config.width * self.config.width
                count = nv.max(nv.min(row.end - row.first - last, self.config.wide), 0)
                single += self._fetch_end(row, slot, last, count, front=False)
            if self._ends_group(step):
                nv.cp_async_commit()

        def settle() -> None:
            for there, memory, place, value in single:
                memory.store(place, value, predicate=there)

        return settle

    def _fetch_end(
        self, row: Row, slot: nv.Int, begin: nv.Int, count: nv.Int, *, front: bool
    ) -> list[tuple[Any, nv.Array, Any, Any]]:
        """What the row has of an access, ``begin`` elements from this thread's first one, if that is a part. Returns
        the single elements: whether they are there, and what goes where."""
        found = list(ends.pieces(count, self.config.wide, self.config.grain, front))
        values = [x.dtype(0) for x in self.arrays]

        def sides(at: Any) -> tuple[Any, Any]:
            return self._place(slot, 0) + begin + at, (row.index, row.first + begin + at)

        if row.exists & (count > 0) & (count < self.config.wide):  # of a thread or two: the other warps go on
            for size, at, there in found:
                place, key = sides(at)
                if there:
                    for x, memory in zip(self.arrays, self.memory, strict=True):
                        if size * x.dtype.bytes >= COPY_BYTES:
                            nv.cp_async(memory, place, x, key, size)
                    if size == 1:
                        values = [
                            x[key] if x.dtype.bytes < COPY_BYTES else value
                            for x, value in zip(self.arrays, values, strict=True)
                        ]
        size, at, there = found[-1]
        return [
            (row.exists & there, memory, sides(at)[0], value)
            for x, memory, value in zip(self.arrays, self.memory, values, strict=True)
            if size * x.dtype.bytes < COPY_BYTES
        ]

    def _ends_group(self, step: int) -> bool:
        """Where rows end anywhere, the last accesses of all threads are one group."""
        if self.config.ragged and self.config.full <= step < self.config.steps - 1:
            return False
        return step + 1 == self.config.steps or (step + 1) % nv.cdiv(self.config.steps, self.config.arrivals) == 0

    def parts(self, slot: nv.Int = 0, waited: bool = False) -> list[Parts]:
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

        def reader(memory: nv.Array) -> Parts:
            def read(step: int) -> Any:
                arrived(step)
                return widened(memory.vector(self._place(slot, step), self.config.wide))

            return read

        return [reader(memory) for memory in self.memory]
