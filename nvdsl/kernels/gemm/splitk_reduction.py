"""Sums of a tile that the blocks of a cluster share: exchanged through their shared memory, added in a fixed order.

Each block has summed its part of K over the whole tile. It gives each other block of the cluster the columns that are
that block's, and keeps its own; then every block adds to these what it was given by the next block, the one after it,
and so on around the cluster, and has its columns of the result:

    block 0 | c0 c1 c2 c3 |      block 0: c0 + c0 + c0 + c0
    block 1 | c0 c1 c2 c3 |  ->  block 1:    c1 + c1 + c1 + c1
    ...                          ...
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, vector
from nvdsl.ops.pointer import address_of, byte_offset

VECTOR = 4
"""Elements that a thread moves at a time: 16 bytes of f32."""


class ClusterReduction:
    """Made in the kernel. ``blocks``: of the cluster, a power of two; ``warpgroups``: of each, with ``rows x cols``
    sums.

    Registers go as they lie, thread beside thread: the layout of an accumulator is the same in all blocks. Between
    `scatter` and `reduce` is a barrier of the cluster, and one before `scatter`, so that all blocks have begun.
    ``offset``: of shared memory that all blocks of the cluster have left by then; None: there is some for this alone.
    """

    def __init__(
        self, blocks: int, warpgroups: int, rows: int, cols: int, dtype: nv.DType, offset: nv.Int | None = None
    ) -> None:
        self.blocks, self.rows, self.cols, self.dtype = blocks, rows, cols // blocks, dtype
        self.warpgroups, self.part = warpgroups, rows * self.cols  # elements that one warpgroup gets from another
        shape = ((blocks - 1) * warpgroups * self.part,)
        self.memory = (
            nv.smem(shape, dtype) if offset is None else nv.get_dynamic_shared_memory(shape, dtype.ir, offset)
        )

    def scatter(self, acc: nv.Accumulator, rank: Any, warpgroup: Any) -> None:
        """Write each other block's columns of ``acc``, the sums of block ``rank``, into that block's memory."""
        kind = ir.VectorType.get([VECTOR], self.dtype.ir)
        for block, values in enumerate(self._parts(acc)):
            if rank != block:
                before = (rank - block - 1) & (self.blocks - 1)  # that it is given something by
                here = address_of(self.memory, self._start(before, warpgroup) * self.dtype.bytes)
                there = nv.mapa(here, block)
                for i in range(0, len(values), VECTOR):
                    together = vector.from_elements(kind, values[i : i + VECTOR])
                    address = byte_offset(there, i * 128 * self.dtype.bytes)
                    llvm.StoreOp(together, address, alignment=VECTOR * self.dtype.bytes)

    def reduce(self, acc: nv.Accumulator, rank: Any, warpgroup: Any) -> nv.Accumulator:
        """The sums of this block's columns: ``rows x cols / blocks``. ``acc``: what it has of them."""
        total, *others = self._parts(acc)
        for block, values in enumerate(others, 1):
            total = [nv.select(rank == block, x, y) for x, y in zip(values, total, strict=True)]
        for before in range(self.blocks - 1):
            start = self._start(before, warpgroup)
            for i in range(0, self.part // 128, VECTOR):
                given = self.memory.load_vector((start + i * 128,), VECTOR)
                total[i : i + VECTOR] = [total[i + j] + given[j] for j in range(VECTOR)]
        new = nv.accumulator(self.rows, self.cols, self.dtype)
        each = self.cols // 2
        return new.with_registers([total[i : i + each] for i in range(0, len(total), each)])

    def _parts(self, acc: nv.Accumulator) -> list[list[Any]]:
        """The registers of each block's columns."""
        each, registers = self.cols // 2, acc.registers()  # `each`: registers of 64 rows
        return [[x for half in registers for x in half[i * each : (i + 1) * each]] for i in range(self.blocks)]

    def _start(self, before: Any, warpgroup: Any) -> Any:
        """Where this thread's elements begin of what the ``before``-th of the other blocks gives."""
        return (before * self.warpgroups + warpgroup) * self.part + nv.warpgroup_thread() * VECTOR
