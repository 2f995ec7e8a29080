"""Copies of an operand that TMA can read: rows are contiguous, and start at multiples of 16 bytes.

Needed where strides or the address break TMA's rules (a row of 4097 f16 is 8,194 bytes), and where wgmma wants K
contiguous and it is not (tf32, fp8 and int8 have no transposed operands: PTX ISA, wgmma.mma_async, imm-trans).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
def pack(source: nv.Array, packed: nv.Array, late: nv.Int = 0, *, turned: bool) -> None:
    """Copy (rows, cols) or (batches, rows, cols), of any strides, to ``packed``, whose rows are contiguous.

    ``late``: other than 0 where the launch before is a copy, too. Its blocks let this one begin when all before it was
    over, so that both may copy at the same time. Who waits for this one waits for both.

    ``turned``: neighbours along the source's columns are nearer. Then tiles of 64 x 64 elements go through shared
    memory: it is read along columns, and written along rows.
    """
    *batches, rows, cols = source.shape
    tiles = TileScheduler(rows, cols, TILE, TILE, group=1, batches=(*batches, None)[0])

    # Along x: there are at most 65,535 blocks along y and along z.
    @nv.kernel(grid=tiles.count, block=THREADS, programmatic=True)
    def pack_copy() -> None:
        if late == 0:
            nv.griddep_wait()  # of what may have written the source, and may yet read what was packed before
        nv.griddep_launch_dependents()
        index, row0, col0 = tiles.start(nv.block_id.x)
        batch = (index,) * len(batches)
        x, y = nv.thread_id.x, nv.thread_id.y

        def load(across: bool) -> list[Any]:
            """This thread's elements of a tile, one of each ``THREADS[1]`` lines, all asked for before any is there.
            Beyond the array's edge they are others of it."""
            found = []
            for i in range(0, TILE, THREADS[1]):
                row, col = (row0 + x, col0 + y + i) if across else (row0 + y + i, col0 + x)
                found.append(source[(*batch, nv.min(row, rows - 1), nv.min(col, cols - 1))])
            return found

        values = load(across=turned)
        if turned:
            # One column more than needed: the column that is read later lies in different banks.
            tile = nv.smem((TILE, TILE + 1), source.dtype)
            for i, value in zip(range(0, TILE, THREADS[1]), values, strict=True):
                tile[y + i, x] = value
            nv.sync_threads()
            values = [tile[x, y + i] for i in range(0, TILE, THREADS[1])]
        for i, value in zip(range(0, TILE, THREADS[1]), values, strict=True):
            row, col = row0 + y + i, col0 + x
            if row < rows and col < cols:
                packed[(*batch, row, col)] = value
        if late != 0:
            nv.griddep_wait()

    pack_copy()


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
