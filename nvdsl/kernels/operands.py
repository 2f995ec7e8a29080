"""A and B of a GEMM on their way into the tensor cores: tensor maps, ring of tiles, multicast, majorness."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import vector
from nvdsl.values import const

SWIZZLE_ROWS = 8
"""Rows after which the swizzle's pattern repeats: tiles start at multiples."""


class Operand:
    """The tiles of one operand: ``mn x k`` elements each, one for every slot of a ring.

    ``array``: stored ``(mn, k)`` where ``major`` is "k" (K contiguous), ``(k, mn)`` where it is "mn"; with an axis of
    batches before these, or without: then it serves all batches. Made in the host function.
    ``parts``: blocks of the cluster that share a tile; each loads some rows of it, for all of them.

    A tile is stored in panels of 128 bytes of the contiguous axis. Where it ends within one (an N-major tile of 208
    columns lies in four panels of 64), the whole panel is loaded and wgmma reads its first columns: panels of 64 or 32
    bytes, which fit, took up to 1.8 times as long on an H200.

    Where the whole array has fewer rows than a K-major tile, only these are loaded (``present``): for rows beyond the
    edge TMA took longer than for rows of memory. The others are zeroed once, by `clear`.
    """

    def __init__(self, array: nv.Array, mn: int, k: int, *, major: str, parts: int = 1) -> None:
        self.rows, self.cols = (mn, k) if major == "k" else (k, mn)
        self.major, self.dtype, self.parts = major, array.dtype, parts
        self.part_rows = self.rows // parts
        panel = 128 // array.dtype.bytes
        self.stored_cols = nv.cdiv(self.cols, panel) * panel
        self.batched = array.ndim == 3
        extent = nv.cdiv(array.shape[-2], SWIZZLE_ROWS) * SWIZZLE_ROWS
        self.present = min(self.rows, extent) if major == "k" and parts == 1 else self.rows
        tile = (*(1,) * self.batched, min(self.part_rows, self.present), self.stored_cols)
        self.map = nv.TMA(array, tile=tile, swizzle=128, l2_promotion=256)

    @property
    def bytes(self) -> int:
        """Bytes that the loads of one tile bring, all parts of it."""
        return self.map.bytes * self.parts

    def allocate(self, stages: int) -> None:
        """Shared memory for the ring; in the kernel."""
        self.stack = nv.smem((stages, self.rows, self.stored_cols), self.dtype, swizzle=128)

    def clear(self, stages: int, thread: Any, threads: int) -> None:
        """Zero the rows that no load writes, by ``threads`` threads. Then comes a barrier of those that multiply."""
        layout, missing = self.stack[0].layout, self.rows - self.present
        first, words = self.present * layout.panel_bytes // 4, missing * layout.panel_bytes // 4
        each = self.stack.stride // 4
        i32 = nv.i32.ir
        memory = nv.get_dynamic_shared_memory((stages * each,), i32, self.stack.first.offset)
        zeros = vector.from_elements(ir.VectorType.get([4], i32), [const(0, i32)] * 4)
        for stage in range(stages):
            for word in nv.range(thread * 4, words, threads * 4, unroll=False):
                memory.store_vector(zeros, (stage * each + first + word,))
        nv.fence_proxy_async()

    def load(
        self, stage: Any, full: nv.Mbarrier, batch: Any, mn: Any, k: Any, *, part: Any = 0, mask: Any = None
    ) -> None:
        """Load this block's part of the tile at (``mn``, ``k``), in elements, of a batch into slot ``stage`` of every
        block in ``mask``."""
        row, col = (mn, k) if self.major == "k" else (k, mn)
        tile = self.stack[stage]
        if self.present < self.rows:
            tile = tile.rows(0, self.present)
        if self.parts > 1:
            tile = tile.rows(part * self.part_rows, self.part_rows)
            row = row + part * self.part_rows
        everyone = mask if self.parts > 1 else None
        at = (batch, row, col) if self.batched else (row, col)
        self.map.load(tile, full, at, multicast_mask=everyone)

    def a(self, stage: Any, first: Any, rows: int) -> nv.Tile:
        """Rows ``first .. first + rows - 1`` of the tile as wgmma's A: ``rows x k``."""
        tile = self.stack[stage]
        return tile.rows(first, rows) if self.major == "k" else tile.cols(first, rows).T

    def b(self, stage: Any) -> nv.Tile:
        """The tile as wgmma's B: ``k x mn``."""
        tile = self.stack[stage]
        if self.major == "k":
            return tile.T
        return nv.Tile(tile.layout.take_panels(self.cols), self.dtype, tile.offset)
