"""Sums of a tile that several blocks share: handed over through global memory, added in a fixed order."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import vector
from nvdsl.ops import memory

VECTOR = 4
"""Elements that a thread moves at a time: 16 bytes of f32."""


GIVEN = 0x5CE1_B0A7_3D92_F64B
"""A raised flag: 64 bits that no memory has by chance."""


class FixupWorkspace:
    """Sums of consumer warpgroups on their way from one block to another. Made in the host function.

    ``blocks``: each gives at most one part of a tile, of ``rows x cols`` sums. Registers go as they lie, 16 bytes a
    thread, one thread beside the other: the layout of an accumulator is the same in both blocks.

    The memory is this call's alone, whatever runs on other streams or in graphs. It is not cleared first, which would
    take longer than all that is handed over: a flag is up when it is `GIVEN`, and who takes the sums lowers it, so that
    no memory is left behind that says so. What was in the memory before is `GIVEN` once in 2^64 times.
    """

    def __init__(self, blocks: int, rows: int, cols: int, dtype: nv.DType) -> None:
        self.sums = nv.empty((blocks, rows * cols // (128 * VECTOR), 128 * VECTOR), dtype)
        self.flags = nv.empty(blocks, nv.i64, arbitrary=True)

    def store(self, acc: nv.Accumulator, block: Any, barrier: Any) -> None:
        """Write what ``block`` gives, and raise its flag. By one warpgroup, of which ``barrier`` is a named barrier."""
        stored(self.sums, acc, block)
        nv.named_barrier_sync(barrier, 128)
        if nv.warpgroup_thread() == 0:
            memory.store_release(self.flags, block, GIVEN)

    def add(self, acc: nv.Accumulator, block: Any, barrier: Any) -> nv.Accumulator:
        """``acc`` plus what ``block`` gives, once it is there; lowers the flag."""
        if nv.warpgroup_thread() == 0:
            while memory.load_acquire(self.flags, block) != GIVEN:
                pass
            self.flags[block] = 0
        nv.named_barrier_sync(barrier, 128)
        return plus(acc, given(self.sums, acc, block))


def stored(sums: nv.Array, acc: nv.Accumulator, slot: Any) -> None:
    """Write an accumulator's registers to ``sums[slot]``, 16 bytes a thread. By one warpgroup."""
    column = nv.warpgroup_thread() * VECTOR
    values = [x for registers in acc.registers() for x in registers]
    for i in range(0, len(values), VECTOR):
        together = vector.from_elements(ir.VectorType.get([VECTOR], acc.dtype.ir), values[i : i + VECTOR])
        sums.store_vector(together, (slot, i // VECTOR, column))


def given(sums: nv.Array, acc: nv.Accumulator, slot: Any) -> list[list[Any]]:
    """The registers of ``sums[slot]``, as `stored` has left them there of an accumulator like ``acc``."""
    column, number, found = nv.warpgroup_thread() * VECTOR, 0, []
    for registers in acc.registers():
        each: list[Any] = []
        for _ in range(0, len(registers), VECTOR):
            four = sums.load_vector((slot, number, column), VECTOR)
            each += [four[j] for j in range(VECTOR)]
            number += 1
        found.append(each)
    return found


def plus(acc: nv.Accumulator, other: list[list[Any]], counts: Any = True) -> nv.Accumulator:
    """``acc`` plus other registers, where they count."""

    def added(x: Any, y: Any) -> Any:
        return x + (y if counts is True else nv.select(counts, y, acc.dtype(0)))

    pairs = zip(acc.registers(), other, strict=True)
    return acc.with_registers([list(map(added, *each)) for each in pairs])
