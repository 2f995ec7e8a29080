"""A consumer's rows of Q, as an operand of the products with K."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.turned import held
from nvdsl.ops import smem
from nvdsl.ops.order import recomputing


class QueryRows:
    """64 rows of Q: the first ``columns`` are in registers, and are not read again from shared memory for each tile of
    keys. Made in the kernel, from a tile that is complete."""

    def __init__(self, tile: nv.Tile, columns: int) -> None:
        size, self.dtype, self._columns = tile.shape[1], tile.dtype, columns
        self._tile = tile
        self._held: Any = None
        if columns:
            # Beside the others in shared memory no addresses of these are kept during the loops.
            with nullcontext() if columns == size else recomputing():
                part = tile if columns == size else tile.cols(0, columns)
                self._held = held(part) if tile.dtype.bytes == 1 else nv.fragment(part).operand()

    def scores(self, tile_k: nv.Tile) -> Any:
        """The products with all rows of a tile of K, issued."""
        (rows, size), columns = tile_k.shape, self._columns
        s = nv.accumulator(64, rows)
        if columns == size:
            s += self._held @ tile_k.T
        elif not columns:
            s += self._tile @ tile_k.T
        else:
            s += self._held @ tile_k.cols(0, columns).T
            s += self._tile.cols(columns, size - columns) @ tile_k.cols(columns, size - columns).T
        return s

    def of_warp(self, at: int, lane: Any) -> Any:
        """This warp's 16 rows, of 32 bytes from column ``at`` on, as mma.sync's operand A. ``lane``: of this thread."""
        width = 32 // self.dtype.bytes
        if at < self._columns:
            words = self._held.registers[0][at // width]  # wgmma's operand of 64 rows is four of mma.sync
        else:
            row, col = nv.warpgroup_thread() // 32 * 16 + lane % 16, at + lane // 16 * (width // 2)
            words = smem.ldmatrix(self._tile.pointer(self._tile.layout.offset(row, col)), 4)
        return nv.WarpFragment("a", (16, width), self.dtype, words)
