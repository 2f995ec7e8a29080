"""Storing a result that TMA can't: rows that start or end anywhere, or elements with gaps."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue import TmaEpilogue
from nvdsl.kernels.blocks.realigned import VECTOR
from nvdsl.kernels.blocks.rows_anywhere import store_rows

THREADS = 128
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

    def _store(
        self, acc: nv.Accumulator, batch: Any, row: Any, col: Any, consumer: Any, held: Any, end: Any, room: Any
    ) -> None:
        barrier = consumer + 1
        acc = self._visited(acc, (batch, row, col), consumer)
        pieces = self._pieces(acc)
        fill = self._filler(acc, (batch, row, col), held)
        nv.named_barrier_sync(barrier, THREADS)  # the last piece of the tile before has been read
        for i, (top, left, width) in enumerate(pieces):
            piece = self._piece(self.stack[consumer * self.buffers + i % self.buffers].offset, width)
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
    a multiple of 16 bytes: see `store_rows`."""

    def _copy(self, piece: nv.Tile, batch: Any, row: Any, col: Any, rows: Any) -> None:
        sides, each = (piece.layout.rows, piece.layout.cols), VECTOR // self.dtype.bytes
        store_rows(
            self.out, self._index(batch, row, col), rows, sides, (sides[1] // each).bit_length() - 1,
            nv.warpgroup_thread(), THREADS, lambda r, c: piece.vector((r, c), each), lambda r, c: piece[r, c],
        )  # fmt: skip
