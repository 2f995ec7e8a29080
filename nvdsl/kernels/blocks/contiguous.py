"""Copies of an operand that TMA can read: rows are contiguous, and start at multiples of 16 bytes.

Needed where strides or the address break TMA's rules (a row of 4097 f16 is 8,194 bytes), and where wgmma wants K
contiguous and it is not (tf32, fp8 and int8 have no transposed operands: PTX ISA, wgmma.mma_async, imm-trans).
"""

from __future__ import annotations

from collections.abc import Sequence

import nvdsl as nv
from nvdsl.kernels.blocks.tile_scheduler import TileScheduler

TILE = 64
THREADS = (TILE, 4)
ROW_BYTES = 16
GRID_BYTES, LONG = 128, 1024
"""Rows of so many bytes start on this grid: kernels that read them are up to 1.3 times as fast as off it."""


def padded_cols(cols: int, dtype: nv.DType) -> int:
    """Columns of a packed row, its padding included."""
    grid = GRID_BYTES if cols * dtype.bytes >= LONG else ROW_BYTES
    return nv.cdiv(cols * dtype.bytes, grid) * grid // dtype.bytes


@nv.jit
def pack(source: nv.Array, packed: nv.Array, *, turned: bool) -> None:
    """Copy (rows, cols) or (batches, rows, cols), of any strides, to ``packed``, whose rows are contiguous.

    ``turned``: neighbours along the source's columns are nearer. Then tiles of 64 x 64 elements go through shared
    memory: it is read along columns, and written along rows.
    """
    copy = Copy(source, packed, turned)

    # Along x: there are at most 65,535 blocks along y and along z.
    @nv.kernel(grid=copy.count, block=THREADS, programmatic=True)
    def pack_copy() -> None:
        nv.griddep_wait()  # of what may have written the source, and may yet read what was packed before
        nv.griddep_launch_dependents()
        copy.tile(nv.block_id.x)

    pack_copy()


@nv.jit
def pack_both(
    a: nv.Array, packed_a: nv.Array, b: nv.Array, packed_b: nv.Array, *, turned_a: bool, turned_b: bool
) -> None:
    """`pack` of two arrays by one kernel: a launch takes as long as a small copy."""
    first, second = Copy(a, packed_a, turned_a), Copy(b, packed_b, turned_b)

    @nv.kernel(grid=first.count + second.count, block=THREADS, programmatic=True)
    def pack_copies() -> None:
        nv.griddep_wait()
        nv.griddep_launch_dependents()
        if nv.block_id.x < first.count:
            first.tile(nv.block_id.x)
        else:
            second.tile(nv.block_id.x - first.count)

    pack_copies()


class Copy:
    """Of ``source`` to ``packed``, as `pack` says, in tiles. Made in the host function."""

    def __init__(self, source: nv.Array, packed: nv.Array, turned: bool) -> None:
        self.source, self.packed, self.turned = source, packed, turned
        *self.batches, self.rows, self.cols = source.shape
        self.tiles = TileScheduler(self.rows, self.cols, TILE, TILE, group=1, batches=(*self.batches, None)[0])
        self.count = self.tiles.count

    def tile(self, number: nv.Int) -> None:
        """Copy tile ``number``. By all threads of a block."""
        index, row0, col0 = self.tiles.start(number)
        batch = (index,) * len(self.batches)
        x, y, steps = nv.thread_id.x, nv.thread_id.y, range(0, TILE, THREADS[1])
        # This thread's elements, one of each ``THREADS[1]`` lines, all asked for before any is there. Beyond the
        # array's edge they are others of it.
        values = []
        for i in steps:
            row, col = (row0 + x, col0 + y + i) if self.turned else (row0 + y + i, col0 + x)
            values.append(self.source[(*batch, nv.min(row, self.rows - 1), nv.min(col, self.cols - 1))])
        if self.turned:
            # One column more than needed: the column that is read later lies in different banks.
            tile = nv.smem((TILE, TILE + 1), self.source.dtype)
            for i, value in zip(steps, values, strict=True):
                tile[y + i, x] = value
            nv.sync_threads()
            values = [tile[x, y + i] for i in steps]
        for i, value in zip(steps, values, strict=True):
            row, col = row0 + y + i, col0 + x
            if row < self.rows and col < self.cols:
                self.packed[(*batch, row, col)] = value


def contiguous(source: nv.Array) -> nv.Array:
    """A copy of ``source``, (rows, cols) or (batches, rows, cols) with any strides, whose rows are contiguous.

    In a host function. Returns a view of the same shape on memory that lives as long as the call.
    """
    *outer, cols = source.shape
    packed = nv.empty((*outer, padded_cols(cols, source.dtype)), source.dtype)
    packed = packed.view((0,) * len(source.shape), source.shape)
    pack.__wrapped__(source, packed, turned=is_turned(source.shape, source.strides))
    return packed


def is_turned(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether neighbours along columns are nearer than those along rows."""
    return strides[-2] < strides[-1] and min(shape[-2:]) > 1
