"""A and B of a GEMM on their way into the tensor cores: tensor maps, ring of tiles, multicast, majorness."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import vector
from nvdsl.ops.tma import L2_EVICT_FIRST, L2_EVICT_NORMAL
from nvdsl.values.traced import const

BOX_ROWS = 256
"""Of a box, at most (CUDA driver API, cuTensorMapEncodeTiled)."""
SWIZZLE_ROWS = 8
"""Rows after which the swizzle's pattern repeats: tiles start at multiples."""


class TmaOperand:
    """The tiles of one operand: ``mn x k`` elements each, one for every slot of a ring.

    ``array``: stored ``(mn, k)`` where ``major`` is "k" (K contiguous), ``(k, mn)`` where it is "mn"; with an axis of
    batches before these, or without: then it serves all batches. Made in the host function.
    ``parts``: blocks of the cluster that share a tile; each loads some rows of it, for all of them.

    A tile is stored in panels of 128 bytes of the contiguous axis. Where it ends within one (an N-major tile of 208
    columns lies in four panels of 64), the whole panel is loaded and wgmma reads its first columns: panels of 64 or 32
    bytes, which fit, took up to 1.8 times as long on an H200.

    The last tile along M or N may hang over the array's edge. What lies beyond it enters only sums that nobody stores,
    so it isn't loaded: where all SMs asked for boxes beyond the edge, an H200 took twice as long as for boxes of
    memory. Of the last tile, and of those behind it that a cluster has, only those rows (K-major) or panels (N-major)
    are loaded that are ``present`` in the last one: rows by a tensor map of their own (``short``), panels one by one.
    The rest of a slot is what it was, and memory that nothing ever wrote at first.

    ``defined``: no memory is multiplied that nothing ever wrote, as all sums go on to other blocks, who add them up.
    Then a block loads whole tiles until each slot was filled, and where there is only one tile the rest of the slots is
    zeroed once, by `clear`.
    """

    clips = True
    """Whether only the rows or panels that are present are loaded of the last tile."""
    leaves_gaps: nv.Bool = False
    """Whether some of a slot is never written: the only tile hangs over the array's edge."""
    hint: nv.Int | None = None
    """How L2 keeps what is loaded, one of ``nvdsl.ops.tma.L2_EVICT_*``; None: as anything."""

    def __init__(
        self, array: nv.Array, mn: int, k: int, *, major: str, parts: int = 1, defined: bool = True
    ) -> None:
        self.rows, self.cols = (mn, k) if major == "k" else (k, mn)
        self.major, self.dtype, self.parts, self.k = major, array.dtype, parts, k
        self.panel, self.each = 128 // array.dtype.bytes, k * array.dtype.bytes
        self.stored_cols = nv.cdiv(self.cols, self.panel) * self.panel
        self.batched = array.ndim == 3
        self.stored, unit = (self.rows, SWIZZLE_ROWS) if major == "k" else (self.stored_cols, self.panel)
        extent = array.shape[-2 if major == "k" else -1]
        self.last = (nv.cdiv(extent, mn) - 1) * mn  # where the last tile starts
        self.present: nv.Int = self.stored
        self.boxes = nv.cdiv(self.rows // parts, BOX_ROWS)
        if parts == self.boxes == 1 and self.clips:
            self.present = nv.min(self.stored, nv.cdiv(extent - self.last, unit) * unit)
        self.defined, self.may_miss = defined, not isinstance(self.present, int) or self.present < self.stored
        self.usual: nv.Int = self.stored
        if self.may_miss and defined:
            self.usual = nv.select(self.last == 0, self.present, self.stored)
            self.leaves_gaps = (self.last == 0) & (self.present < self.stored)
        by_rows = major == "k" and self.may_miss
        self.map = self._map(array, self.usual if by_rows and defined else None)
        self.short = self._map(array, self.present) if by_rows else None

    def _map(self, array: nv.Array, present: nv.Int | None = None) -> nv.TMA:
        """Of a block's part of a tile, or of half of it where it is too high for a box: of its rows, or the first ones
        that are ``present``; of one panel."""
        rows = self.rows // (self.parts * self.boxes)
        # With 128 bytes on the grid of 256, few rows times large weights took 2 to 4 % longer on an H200. Off the grid
        # 256 are lines that nobody asked for, and took 20 % longer.
        tile = (*(1,) * self.batched, rows, self.panel)
        return nv.TMA(array, tile=tile, swizzle=128, l2_promotion=None, rows=present)

    def loaded_once(self, once: nv.Bool) -> None:
        """Say whether each element is loaded by one block alone. Then it is the first that L2 gives up: what others
        have there stays, and what was written there need not go to memory now. Weights of few rows were read up to
        15 % faster so on an H200 whose L2 was full of written lines."""
        if once is not False:
            self.hint = L2_EVICT_FIRST if once is True else nv.select(
                once, nv.i64(L2_EVICT_FIRST), nv.i64(L2_EVICT_NORMAL)
            )

    def count(self, mn: nv.Int, old: nv.Bool) -> nv.Int:
        """Elements along M or N that a load of the tile at ``mn`` brings: of the last tile those that are present, of
        another one all that are stored. ``old``: the slot was filled before. Where memory is to be ``defined`` and it
        was not, these are the ``usual`` ones, all, or where there is one tile those that are present."""
        if not self.may_miss or self.defined and old is False:
            return self.usual
        last = (mn >= self.last) & old if self.defined else mn >= self.last
        return nv.select(last, self.present, self.usual)

    def bytes(self, count: nv.Int) -> nv.Int:
        """Bytes that the loads of a tile of ``count`` elements along M or N bring, all parts of it."""
        return count * self.each

    def allocate(self, stages: int) -> None:
        """Shared memory for the ring; in the kernel."""
        self.stack = nv.smem((stages, self.rows, self.stored_cols), self.dtype, swizzle=128)

    def clear(self, stages: int, thread: nv.Int, threads: int) -> None:
        """Zero what no load writes, by ``threads`` threads. Then comes a barrier of those that multiply."""
        if not self.may_miss or isinstance(self.last, int) and self.last > 0:
            return
        i32 = nv.i32.ir
        each = self.stack.stride // 4
        memory = nv.get_dynamic_shared_memory((stages * each,), i32, self.stack.first.offset)
        zeros = vector.from_elements(ir.VectorType.get([4], i32), [const(0, i32)] * 4)
        first = nv.select(self.last == 0, self.bytes(self.present) // 4, each)
        for stage in nv.range(stages, unroll=False):
            for word in nv.range(first + thread * 4, each, threads * 4, unroll=False):
                memory.store_vector(zeros, (stage * each + word,))
        nv.fence_proxy_async()

    def load(
        self,
        stage: nv.Int,
        full: nv.Mbarrier,
        batch: nv.Int,
        mn: nv.Int,
        k: nv.Int,
        count: nv.Int,
        *,
        part: nv.Int | None = None,
        mask: nv.Int | None = None,
    ) -> None:
        """Load this block's part of the tile at (``mn``, ``k``), in elements, of a batch into slot ``stage`` of every
        block in ``mask``: ``count`` elements along M or N, see `count`. ``part`` None: all parts of the tile, for this
        block."""
        self.load_tile(self.stack[stage], full, batch, mn, k, count, part=part, mask=mask)

    def load_tile(
        self,
        slot: nv.Tile,
        full: nv.Mbarrier,
        batch: nv.Int,
        mn: nv.Int,
        k: nv.Int,
        count: nv.Int,
        *,
        part: nv.Int | None,
        mask: nv.Int | None,
    ) -> None:
        """The same, into a tile of shared memory."""
        rows = self.rows // (self.parts * self.boxes)
        mask = mask if self.parts > 1 else None
        boxes: list[nv.Int] = list(range(self.boxes))
        if self.parts > 1:
            boxes = list(range(self.parts * self.boxes)) if part is None else [part * self.boxes + i for i in boxes]
        if self.short is not None:
            at = self._at(batch, mn, k)
            whole = mn < self.last if not self.defined else count is self.usual or count == self.usual
            if whole:
                self.map.load(slot, full, at, l2_hint=self.hint)
            else:
                self.short.load(slot, full, at, l2_hint=self.hint)
            return
        for box in boxes:
            start = box * rows
            tile = slot.rows(start, rows)
            for panel in range(self.stored_cols // self.panel):
                at = self._at(batch, mn, k, start, panel * self.panel)
                if self.major == "k" or panel == 0 or count > panel * self.panel:
                    self.map.load(self._panel(tile, panel), full, at, multicast_mask=mask, l2_hint=self.hint)

    def _panel(self, tile: nv.Tile, panel: int) -> nv.Tile:
        layout = tile.layout.take_panels(self.panel)
        return nv.Tile(layout, self.dtype, tile.offset + panel * tile.layout.panel_stride)

    def _at(
        self, batch: nv.Int, mn: nv.Int, k: nv.Int, down: nv.Int = 0, right: int = 0
    ) -> tuple[nv.Int, ...]:
        """The array's element (``mn``, ``k``), and so many rows and columns further: TMA's coordinates."""
        row, col = (mn, k) if self.major == "k" else (k, mn)
        return (batch, row + down, col + right) if self.batched else (row + down, col + right)

    def a(self, stage: Any, first: Any, rows: int) -> nv.Tile:
        """Rows ``first .. first + rows - 1`` of the tile as wgmma's A: ``rows x k``."""
        tile = self.stack[stage]
        return tile.rows(first, rows) if self.major == "k" else tile.cols(first, rows).T

    def b(self, stage: Any, first: Any = 0, cols: int | None = None) -> nv.Tile:
        """The tile as wgmma's B, ``k x mn``; or columns ``first .. first + cols - 1`` of it (of an N-major tile, whole
        panels)."""
        tile = self.stack[stage]
        if self.major == "k":
            return tile.T if cols in (None, self.rows) else tile.rows(first, cols).T
        if cols not in (None, self.cols):
            return tile.cols(first, cols)
        return nv.Tile(tile.layout.take_panels(self.cols), self.dtype, tile.offset)
