"""Storing a result that TMA can't: rows that start or end anywhere, or elements with gaps."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue import TmaEpilogue
from nvdsl.kernels.blocks.realigned import as_vector, shifted_vector
from nvdsl.lang.packing import as_words

THREADS = 128
VECTOR = 16
"""Bytes of a store."""
VECTORS = "vectors"
"""What a kernel is told in place of True where `VectorEpilogue` can store."""


def cut(out: nv.Array) -> bool:
    """Whether the rows of ``out`` are no whole 16 bytes: TMA, which clips them there, would write over what lies behind
    them. Of columns that only a run knows, who calls the kernel says so."""
    cols = out.shape[-1]
    return isinstance(cols, int) and cols * out.dtype.bytes % 16 != 0


class DirectEpilogue(TmaEpilogue):
    """`TmaEpilogue` for an ``out`` of any strides and alignment.

    Pieces go through shared memory all the same: neighbouring threads then store neighbouring elements of a row, and
    whole sectors are written. Elements beyond the edge are left out one by one.
    """

    def _tensor_maps(self) -> dict[int, nv.TMA]:
        return {}

    def _store(self, acc: nv.Accumulator, batch: Any, row: Any, col: Any, consumer: Any, held: Any, end: Any) -> None:
        barrier = consumer + 1
        acc = self._visited(acc, (batch, row, col), consumer)
        pieces = self._pieces(acc)
        fill = self._filler(acc, (batch, row, col), held)
        nv.named_barrier_sync(barrier, THREADS)  # the last piece of the tile before has been read
        for i, (top, left, width) in enumerate(pieces):
            piece = self._piece(consumer * self.buffers + i % self.buffers, width)
            fill(piece, i)
            nv.named_barrier_sync(barrier, THREADS)
            self._copy(piece, batch, row + top, col + left, self.out.shape[-2] if end is None else end)
            if self.buffers == 1 and i + 1 < len(pieces):
                nv.named_barrier_sync(barrier, THREADS)

    def drain(self) -> None:
        """Nothing is on its way: a thread's own stores are done when the kernel is."""

    def _copy(self, piece: nv.Tile, batch: Any, row: Any, col: Any, rows: Any) -> None:
        """Store a piece whose first element is ``out[batch, row, col]``, but no rows from ``rows`` on."""
        width, cols = piece.layout.cols, self.out.shape[-1]
        thread = nv.warpgroup_thread()
        for number in nv.range(thread, piece.layout.rows * width, THREADS, unroll=4):
            r, c = number // width, number % width
            if row + r < rows and col + c < cols:
                self.out[self._index(batch, row + r, col + c)] = piece[r, c]

    def _index(self, batch: Any, row: Any, col: Any) -> tuple[Any, ...]:
        return (batch, row, col) if self._batched else (row, col)


class VectorEpilogue(DirectEpilogue):
    """`DirectEpilogue` for contiguous rows of 16- or 32-bit elements, wherever these start, of an array that starts at
    a multiple of 16 bytes: what of a piece's row lies in whole vectors of 16 bytes is stored as such.

    A thread reads the two vectors of shared memory in which its one lies, and shifts them together. The elements
    before the first vector and behind the last one, fewer than 16 bytes each, are stored one by one.
    """

    def _copy(self, piece: nv.Tile, batch: Any, row: Any, col: Any, rows: Any) -> None:
        each, thread = VECTOR // self.dtype.bytes, nv.warpgroup_thread()
        height, units = piece.layout.rows, piece.layout.cols // each
        width = nv.min(piece.layout.cols, self.out.shape[-1] - col)
        for number in nv.range(thread, height * units, THREADS, unroll=2):
            r, unit = number // units, number % units
            head = self._head(batch, row + r, col)
            c = unit * each + head
            if (row + r < rows) & (c + each <= width):
                sides = [piece.vector((r, nv.min(unit + i, (width - 1) // each) * each), each) for i in (0, 1)]
                found = shifted_vector(as_words(sides, self.dtype), head * (self.dtype.bytes * 8))
                self.out.store_vector(as_vector(found, self.dtype), self._index(batch, row + r, col + c))
        # Inside of a row both ends together are a vector. Where the result ends, each may be one but for an element.
        bits = each.bit_length() - nv.select(width == piece.layout.cols, 1, 0)
        for number in nv.range(thread, height << bits, THREADS, unroll=2):
            r, c = number >> bits, number & (1 << bits) - 1
            head = self._head(batch, row + r, col)
            c = nv.select(c < head, c, c + nv.max(width - head, 0) // each * each)
            if (row + r < rows) & (c < width):
                self.out[self._index(batch, row + r, col + c)] = piece[r, c]

    def _head(self, batch: Any, row: Any, col: Any) -> Any:
        """Elements of a row from ``col`` on before the first that starts at a multiple of 16 bytes."""
        *of_batch, pitch, _ = self.out.strides
        each = VECTOR // self.dtype.bytes
        start = row * nv.i32(pitch) + col
        for step in of_batch:
            start = start + batch * nv.i32(step)
        return -start & (each - 1)  # wrapped around, it is right yet
