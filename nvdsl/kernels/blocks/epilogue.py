"""From accumulators to global memory: visit, convert, stmatrix into swizzled shared memory, TMA store.

A consumer's part of the result leaves in *pieces* of 64 rows by 128 bytes: one TMA box each. The registers of an
accumulator are spread so that a direct store would write 8 bytes here and 8 bytes there; a piece is written to
shared memory with stmatrix (the 128-byte swizzle keeps it free of bank conflicts) and leaves in whole lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.epilogue_visitor import EpilogueOp, Place, visitor
from nvdsl.lang.accumulator import pack_pair, pair_vector
from nvdsl.ops.order import recomputing

PIECE_ROWS = 64


def piece_widths(tile_n: int, itemsize: int) -> list[int]:
    """Columns of the pieces side by side in a tile: 128 bytes each, and at its end 64, 32 and 16 bytes where they fit.

    >>> piece_widths(208, 2), piece_widths(112, 2), piece_widths(176, 1)
    ([64, 64, 64, 16], [64, 32, 16], [128, 32, 16])
    """
    widths, left = [], tile_n * itemsize
    for size in (128, 64, 32, 16):
        widths += [size // itemsize] * (left // size)
        left %= size
    return widths


class TmaEpilogue:
    """Stores tiles of accumulators into ``out``: (rows, columns), or (batches, rows, columns), rows contiguous. Made in
    the host function.

    ``tile_n``: columns of an accumulator. ``buffers``: pieces of shared memory for each consumer warpgroup. A store is
    waited for only before its buffer is written again.
    """

    turned = False
    """Whether accumulators are of the transpose of ``out``."""
    even = False
    """Whether the pieces of each store take all buffers in turn, equally often: then each waits for its own buffer,
    where the first one else waits for all."""

    def __init__(
        self, out: nv.Array, tile_n: int, *, buffers: int, op: EpilogueOp | None = None, operands: Sequence[Any] = ()
    ) -> None:
        self.out, self.dtype, self.buffers = out, out.dtype, buffers
        self.visitor = visitor(op, operands, out, tile_n, self.turned)
        self.widths = self._piece_widths(tile_n)
        self._batched = out.ndim == 3
        self._maps = self._tensor_maps()

    def _piece_widths(self, tile_n: int) -> list[int]:
        return piece_widths(tile_n, self.dtype.bytes)

    def _tensor_maps(self) -> dict[int, nv.TMA]:
        """By the width of a piece."""
        one, out = (1,) * self._batched, self._described()
        size = self.dtype.bytes
        return {w: nv.TMA(out, tile=(*one, PIECE_ROWS, w), swizzle=w * size) for w in set(self.widths)}

    def _described(self) -> nv.Array:
        """What the tensor maps are made of."""
        return self.out

    def allocate(self, consumers: int, stack: nv.TileStack | None = None) -> None:
        """Shared memory; in the kernel. ``stack``: one's own, that nobody else uses while a tile is stored, such as
        operands that all have read. Raises ArgumentError for one of other tiles, or of too few.
        """
        shape = (consumers * self.buffers, PIECE_ROWS, 128 // self.dtype.bytes)
        self.stack = nv.smem(shape, self.dtype, swizzle=128) if stack is None else stack
        nv.require(
            self.stack.shape[0] >= shape[0] and self.stack.shape[1:] == shape[1:] and self.stack.dtype is self.dtype
            and self.stack.first.swizzle == 128,
            f"an epilogue's buffer of {self.stack.shape} {self.stack.dtype.name}, with a swizzle of "
            f"{self.stack.first.swizzle} bytes",
            rule=f"pieces are {shape[1]}x{shape[2]} {self.dtype.name} with the 128-byte swizzle, {shape[0]} of them",
            fix=f"nv.smem({shape}, nv.{self.dtype.name}, swizzle=128)",
        )  # fmt: skip

    def bytes(self, rows: int) -> int:
        """Shared memory for all pieces of so many rows."""
        return rows * len(self.widths) * 128

    def _piece(self, place: Any, width: int) -> nv.Tile:
        """The buffer at an offset as a tile of ``width`` columns, with the swizzle of that width."""
        bytes = width * self.dtype.bytes
        layout = nv.layout.TileLayout.of(PIECE_ROWS, width, self.dtype.bytes, bytes)
        return nv.Tile(layout, self.dtype, place)

    def prefetch(self, batch: Any, row: Any, col: Any, rows: int) -> Any:
        """Start to read what the epilogue of a tile of ``rows`` rows at ``out[batch, row, col]`` needs beside the sums.

        By the warpgroup that stores it, best before the loop over K. `store` takes what this returns.
        """
        return self.visitor.prefetch((batch, row, col), rows)

    def store(
        self, acc: nv.Accumulator, batch: Any, row: Any, col: Any, consumer: Any, held: Any = None, end: Any = None,
        room: tuple[nv.Bool, nv.Int] | None = None,
    ) -> None:  # fmt: skip
        """Store ``acc``, whose first element is ``out[batch, row, col]``. ``consumer``: the warpgroup, 0, 1 ...;
        ``held``: see `prefetch`. ``end``: rows from this one on belong to somebody else (None: nobody). TMA clips only
        where the array ends, so that threads store the rows of a piece that reaches over it. ``room``: whether nobody
        needs the shared memory at an offset any more: then each piece lies there, and none waits for another."""
        if not self.visitor.needs_place:
            self._store(acc, batch, row, col, consumer, held, end, room)
        # Beyond the edge the last elements are read, which others may be writing: the result may be its own operand.
        elif self._begins_inside(row, col):
            self._store(acc, batch, row, col, consumer, held, end, room)

    def _begins_inside(self, row: Any, col: Any) -> nv.Bool:
        return (row < self.out.shape[-2]) & (col < self.out.shape[-1])

    def _store(
        self, acc: nv.Accumulator, batch: Any, row: Any, col: Any, consumer: Any, held: Any, end: Any,
        room: tuple[nv.Bool, nv.Int] | None,
    ) -> None:  # fmt: skip
        barrier = consumer + 1  # named barriers: 0 is the whole block's
        leader = nv.warpgroup_thread() == 0  # bulk groups belong to a thread: always the same one
        acc = self._visited(acc, (batch, row, col), consumer)
        pieces = self._pieces(acc)
        fill = self._filler(acc, (batch, row, col), held)

        must_wait: Any = leader if room is None else leader & ~room[0]
        if leader:  # the pieces of the tile before have been read, long ago
            nv.bulk_wait_group(self.buffers - 1 if self.even else 0, read=True)
        nv.named_barrier_sync(barrier, 128)
        for i, (top, left, width) in enumerate(pieces):
            place = self.stack[consumer * self.buffers + i % self.buffers].offset
            if room is not None:
                place = nv.select(room[0], nv.i32(room[1] + i * self.stack.stride), nv.i32(place))
            piece = self._piece(place, width)
            fill(piece, i)
            nv.fence_proxy_async()
            if (1 if self.even else self.buffers) <= i + 1 < len(pieces) and self.buffers > 1:
                if must_wait:
                    nv.bulk_wait_group(self.buffers - 2, read=True)  # the next piece's buffer is free
            nv.named_barrier_sync(barrier, 128)
            self._send(piece, self._maps.get(width), batch, row + top, col + left, end, leader)
            if self.buffers == 1 and i + 1 < len(pieces):
                if must_wait:
                    nv.bulk_wait_group(0, read=True)
                nv.named_barrier_sync(barrier, 128)

    def _send(
        self, piece: nv.Tile, by: nv.TMA | None, batch: Any, row: Any, col: Any, end: Any, leader: Any
    ) -> None:
        """Store a piece whose first element is the sum at (``row``, ``col``), through the tensor map ``by``: the leader
        of the warpgroup."""
        assert by is not None
        ragged = None if end is None else row + PIECE_ROWS > end
        if leader:
            by.store(piece, self._at(batch, row, col), predicate=None if ragged is None else ~ragged)
            nv.bulk_commit_group()
        if ragged is not None and ragged:
            self._copy_rows(piece, batch, row, col, end)

    def _at(self, batch: Any, row: Any, col: Any) -> tuple[Any, ...]:
        """The place in ``out`` of a sum: TMA's coordinates."""
        return (batch, row, col) if self._batched else (row, col)

    def _copy_rows(self, piece: nv.Tile, batch: Any, row: Any, col: Any, end: Any) -> None:
        """Store the rows before ``end`` of a piece whose first element is ``out[batch, row, col]``, 16 bytes at a
        time: by all threads of the warpgroup."""
        each = 16 // self.dtype.bytes
        units = piece.layout.cols // each
        for number in nv.range(nv.warpgroup_thread(), nv.min(PIECE_ROWS, nv.max(end - row, 0)) * units, 128):
            r, c = number // units, number % units * each
            if col + c < self.out.shape[-1]:
                at = (row + r, col + c)
                self.out.store_vector(piece.vector((r, c), each), (batch, *at) if self._batched else at)

    def _visited(self, acc: nv.Accumulator, at: Place, consumer: Any) -> nv.Accumulator:
        """What the visitor makes of all sums at once."""
        barrier = consumer + 1

        def free() -> nv.Array:
            if nv.warpgroup_thread() == 0:
                nv.bulk_wait_group(0, read=True)
            nv.named_barrier_sync(barrier, 128)
            first = self.stack[consumer * self.buffers]
            return nv.get_dynamic_shared_memory((first.bytes // 4,), nv.f32.ir, first.offset)

        return self.visitor.tile(acc, at, barrier, free)

    def _pieces(self, acc: nv.Accumulator) -> list[tuple[int, int, int]]:
        """First row, first column and width of each piece."""
        lefts = [sum(self.widths[:i]) for i in range(len(self.widths))]
        return [(top, *x) for top in range(0, acc.m, PIECE_ROWS) for x in zip(lefts, self.widths, strict=True)]

    def drain(self) -> None:
        """Before the block ends: its shared memory has been read."""
        with recomputing():
            leader = nv.warpgroup_thread() == 0
        if leader:
            nv.bulk_wait_group(0, read=True)

    def _filler(self, acc: nv.Accumulator, at: Place, held: Any) -> Callable[[nv.Tile, int], None]:
        """What writes this thread's values of a tile's pieces to shared memory, one after the other."""
        if held is None:
            held = self.visitor.prefetch(at, acc.m)
        registers = acc.registers()
        pieces, gone = [], 0
        for top, left, width in self._pieces(acc):
            pieces.append(self.visitor.parts(top, left, width // 2, gone))
            gone += width // 2
        following = iter([part for parts in pieces for part in parts][1:])
        fetched = self.visitor.load(at, pieces[0][0])

        def fill(piece: nv.Tile, number: int) -> None:
            nonlocal fetched
            for part in pieces[number]:
                values = self.visitor.sums(registers, part)
                self._write(piece, self.visitor.visit(values, at, part, held, fetched), part.first)
                coming = next(following, None)
                if coming is not None:
                    fetched = self.visitor.load(at, coming)

        return fill

    def _write(self, piece: nv.Tile, values: Sequence[Any], first: int) -> None:
        """Write this thread's values of a piece, from register ``first`` on, to shared memory."""
        if self.dtype.bits == 16:
            row, col = nv.layout.FRAGMENT_ROWS(nv.warpgroup_thread())
            start = piece.layout.offset(row, col if piece.layout.cols >= 16 else 0)
            packed = [pack_pair(x, y, self.dtype) for x, y in zip(values[::2], values[1::2], strict=True)]
            for i in range(0, len(packed), 4):  # 16 columns, 32 bytes: the swizzle is an XOR, as is this step
                nv.stmatrix(piece.pointer(start ^ (first * 4 + i * 8)), packed[i : i + 4])
            return
        row0, col0 = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
        for register in range(0, len(values), 2):
            r, c = nv.layout.accumulator_element(0, first + register)
            low, high = (self.dtype(value) for value in values[register : register + 2])  # integers are cut toward zero
            piece.store_vector(pair_vector(low, high, self.dtype), (row0 + r, col0 + c))
