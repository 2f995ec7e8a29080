"""A and B of a GEMM on their way into the tensor cores: tensor maps, ring of tiles, multicast, majorness."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import vector
from nvdsl.values.traced import const

SWIZZLE_ROWS = 8
"""Rows after which the swizzle's pattern repeats: tiles start at multiples."""
PROMOTED = 256
"""Bytes that a miss brings into L2, where rows start on the grid of so many: with 128, few rows times large weights
took 2 to 4 % longer on an H200. Off the grid 256 are lines that nobody asked for, and took 20 % longer."""


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
    memory. The last tile has a tensor map of its own (``short``), of the rows (K-major) or panels (N-major) that are
    ``present``. Where it is the only tile, the rest of the slots is zeroed once, by `clear`.
    """

    def __init__(self, array: nv.Array, mn: int, k: int, *, major: str, parts: int = 1) -> None:
        self.rows, self.cols = (mn, k) if major == "k" else (k, mn)
        self.major, self.dtype, self.parts, self.k = major, array.dtype, parts, k
        panel = 128 // array.dtype.bytes
        self.stored_cols = nv.cdiv(self.cols, panel) * panel
        self.batched = array.ndim == 3
        stored, unit = (self.rows, SWIZZLE_ROWS) if major == "k" else (self.stored_cols, panel)
        extent = array.shape[-2 if major == "k" else -1]
        self.last = (nv.cdiv(extent, mn) - 1) * mn  # where the last tile starts
        self.present = min(stored, nv.cdiv(extent - self.last, unit) * unit) if parts == 1 else stored
        self.missing = stored - self.present
        whole, last = (self._map(array, extent) for extent in (stored, self.present))
        self.map = whole if self.last or not self.missing else last
        self.short = last if self.last and self.missing else None

    def _map(self, array: nv.Array, extent: int) -> nv.TMA:
        """Of a block's part of a tile with ``extent`` elements along M or N."""
        rows, cols = (extent, self.stored_cols) if self.major == "k" else (self.rows, extent)
        on_grid = array.strides[-2] * self.dtype.bytes % PROMOTED == 0
        promotion = PROMOTED if on_grid else 128
        return nv.TMA(array, tile=(*(1,) * self.batched, rows // self.parts, cols), swizzle=128, l2_promotion=promotion)

    @property
    def bytes(self) -> int:
        """Bytes that the loads of one tile bring, all parts of it; of one that isn't short."""
        return self.map.bytes * self.parts

    def allocate(self, stages: int) -> None:
        """Shared memory for the ring; in the kernel."""
        self.stack = nv.smem((stages, self.rows, self.stored_cols), self.dtype, swizzle=128)

    def clear(self, stages: int, thread: Any, threads: int) -> None:
        """Zero what no load writes, by ``threads`` threads. Then comes a barrier of those that multiply."""
        first, each = self.map.bytes // 4, self.stack.stride // 4
        i32 = nv.i32.ir
        memory = nv.get_dynamic_shared_memory((stages * each,), i32, self.stack.first.offset)
        zeros = vector.from_elements(ir.VectorType.get([4], i32), [const(0, i32)] * 4)
        for stage in range(stages):
            for word in nv.range(first + thread * 4, each, threads * 4, unroll=False):
                memory.store_vector(zeros, (stage * each + word,))
        nv.fence_proxy_async()

    def load(
        self, stage: Any, full: nv.Mbarrier, batch: Any, mn: Any, k: Any, *, part: Any = 0, mask: Any = None
    ) -> None:
        """Load this block's part of the tile at (``mn``, ``k``), in elements, of a batch into slot ``stage`` of every
        block in ``mask``."""
        start = part * self.map.shape[-2] if self.parts > 1 else 0
        tile = self._loaded(self.stack[stage].rows(start, self.map.shape[-2]), self.map)
        self.map.load(tile, full, self._at(batch, mn, k, start), multicast_mask=mask if self.parts > 1 else None)

    def expect_and_load(
        self, stage: Any, full: nv.Mbarrier, batch: Any, mn: Any, k: Any, old: Any, *, part: Any = 0, mask: Any = None
    ) -> None:
        """`load`, and before it tell ``full`` to expect the bytes: fewer of the last tile, where ``old`` holds: the
        slot was filled before, so that there is no memory in it that nothing ever wrote."""
        if self.short is not None and old and mn == self.last:
            full.expect_tx(self.short.bytes)
            self.short.load(self._loaded(self.stack[stage], self.short), full, self._at(batch, mn, k))
        else:
            full.expect_tx(self.bytes)
            self.load(stage, full, batch, mn, k, part=part, mask=mask)

    def _loaded(self, slot: nv.Tile, map: nv.TMA) -> nv.Tile:
        """The beginning of a slot, or of a part of it, that a tile of ``map`` fills."""
        rows, cols = map.shape[-2:]
        return nv.Tile(slot.layout.take_rows(rows).take_panels(cols), self.dtype, slot.offset)

    def _at(self, batch: Any, mn: Any, k: Any, start: Any = 0) -> tuple[Any, ...]:
        """The array's element (``mn``, ``k``), and ``start`` rows further: TMA's coordinates."""
        row, col = (mn, k) if self.major == "k" else (k, mn)
        return (batch, row + start, col) if self.batched else (row + start, col)

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
