"""Sums of a tile that several blocks share: handed over through global memory, added in a fixed order."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import vector
from nvdsl.ops import memory

VECTOR = 4
"""Elements that a thread moves at a time: 16 bytes of f32."""


def workspace_shapes(blocks: int, warpgroups: int, rows: int, cols: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the workspace: of the sums (the accumulator's type), and of the flags (i32, zero before the first use).

    Each block hands over at most one tile: ``warpgroups`` parts of ``rows x cols``.
    """
    return (blocks * warpgroups, rows * cols // (128 * VECTOR), 128 * VECTOR), (blocks * warpgroups,)


class Handover:
    """Sums of consumer warpgroups on their way from one block to another.

    ``sums``, ``flags``: arrays of `workspace_shapes`. A place is a number of a block's warpgroup. Registers go as they
    lie, 16 bytes a thread, one thread beside the other: the layout of an accumulator is the same in both blocks.
    """

    def __init__(self, sums: nv.Array, flags: nv.Array) -> None:
        self.sums, self.flags = sums, flags

    def give(self, acc: nv.Accumulator, place: Any, barrier: Any) -> None:
        """Write ``acc`` to ``place`` and raise its flag. By one warpgroup, of which ``barrier`` is a named barrier."""
        column = nv.warpgroup_thread() * VECTOR
        values = [x for block in acc.registers() for x in block]
        for i in range(0, len(values), VECTOR):
            together = vector.from_elements(ir.VectorType.get([VECTOR], acc.dtype.ir), values[i : i + VECTOR])
            self.sums.store_vector(together, (place, i // VECTOR, column))
        nv.named_barrier_sync(barrier, 128)
        if nv.warpgroup_thread() == 0:
            memory.store_release(self.flags, place, 1)

    def take(self, acc: nv.Accumulator, place: Any, barrier: Any) -> nv.Accumulator:
        """``acc`` plus what is given at ``place``, once it is; lowers the flag."""
        if nv.warpgroup_thread() == 0:
            while memory.load_acquire(self.flags, place) == 0:
                pass
            self.flags[place] = 0
        nv.named_barrier_sync(barrier, 128)
        column = nv.warpgroup_thread() * VECTOR
        summed, number = [], 0
        for registers in acc.registers():
            sums = []
            for i in range(0, len(registers), VECTOR):
                given = self.sums.load_vector((place, number, column), VECTOR)
                sums += [registers[i + j] + given[j] for j in range(VECTOR)]
                number += 1
            summed.append(sums)
        return acc.with_registers(summed)
