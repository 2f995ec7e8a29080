"""TMA for whole tiles: one tensor map, as many boxes as the tile's panels."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence

from nvdsl.errors import trace_error
from nvdsl.hopper import arch
from nvdsl.ir import tensor_copies
from nvdsl.lang.array import Array
from nvdsl.lang.tile import Tile
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import nvgpu
from nvdsl.ops import tma
from nvdsl.ops.mbarrier import Mbarrier
from nvdsl.values import dtypes
from nvdsl.values.extents import constant_fix
from nvdsl.values.python_numbers import plain
from nvdsl.values.typing import Bool, Coords, Int, Shape

_SWIZZLE = {
    0: nvgpu.TensorMapSwizzleKind.SWIZZLE_NONE,
    16: nvgpu.TensorMapSwizzleKind.SWIZZLE_NONE,
    32: nvgpu.TensorMapSwizzleKind.SWIZZLE_32B,
    64: nvgpu.TensorMapSwizzleKind.SWIZZLE_64B,
    128: nvgpu.TensorMapSwizzleKind.SWIZZLE_128B,
}
_L2_PROMOTION = {
    0: nvgpu.TensorMapL2PromoKind.L2PROMO_NONE,
    64: nvgpu.TensorMapL2PromoKind.L2PROMO_64B,
    128: nvgpu.TensorMapL2PromoKind.L2PROMO_128B,
    256: nvgpu.TensorMapL2PromoKind.L2PROMO_256B,
}
_FILL = {"zero": nvgpu.TensorMapOOBKind.OOB_ZERO, "nan": nvgpu.TensorMapOOBKind.OOB_NAN}


class TMA:
    """Copies tiles of an array between global and shared memory, made in the host function.

    ``array`` has 1 to 5 axes, of which the last is contiguous. ``tile``: elements along each axis. ``swizzle``: that of
    the tile in shared memory, in bytes. A tile whose rows are wider than the swizzle is copied as several boxes, one
    for each panel. ``l2_promotion``: bytes that a miss fetches into L2; None: 256 where rows
    start at multiples of 256 bytes, else 128. ``fill``: what loads put in place of elements
    outside of the array, ``"zero"`` or ``"nan"``. ``rows``: copy only so many of the
    tile's rows (its last axis but one), the first ones. It is an integer of the host function, traced or not, from 1 to
    the tile's rows; the tile in shared memory keeps its size.

    Coordinates are in elements, in the order of the array's axes. The last one must be a multiple of 16 bytes (8 f16);
    any other ends the kernel. Loads may begin before the array, at negative coordinates; stores may not. Stores clip
    rows at whole 16 bytes: if a row ends within 16 bytes, padding must follow it, and is overwritten.
    (PTX ISA, ``cp.async.bulk.tensor``; CUDA driver API, ``cuTensorMapEncodeTiled``.)
    """

    def __init__(
        self,
        array: Array,
        tile: Shape,
        *,
        swizzle: int = 0,
        l2_promotion: int | None = 128,
        fill: str = "zero",
        rows: Int | None = None,
    ) -> None:
        self.shape: tuple[int, ...] = tuple(map(plain, tile if isinstance(tile, Sequence) else (tile,)))
        if not isinstance(array, Array) or not all(isinstance(extent, int) for extent in self.shape):
            raise trace_error(
                f"nv.TMA({repr(array) if isinstance(array, Array) else reprlib.repr(array)}, tile={tile!r})",
                rule="a tensor map is made of an array argument and a tile of Python ints",
                fix=constant_fix("nv.TMA(a, tile=(rows, cols)) for an argument a of the host function", tile),
            )
        self.dtype, self.swizzle = array.dtype, swizzle
        if self.dtype is dtypes.bool_:
            raise trace_error(
                f"nv.TMA of an array of {self.dtype.name}",
                rule="a tensor map has no elements of one bit (CUDA driver API, CUtensorMapDataType)",
                fix="pass a view of the bytes, x.view(np.uint8)",
            )
        if len(self.shape) != array.ndim:
            raise trace_error(
                f"a tile of shape {self.shape} of an array of shape {array.shape}",
                rule="a tile has one extent for each axis of the array",
                fix="pass 1 for the axes of which the tile takes one index",
            )
        by_rows = False
        if l2_promotion is None:
            step = array.strides[-2] if array.ndim > 1 else 0
            by_rows = not isinstance(step, int)
            l2_promotion = 256 if isinstance(step, int) and step * array.dtype.bytes % 256 == 0 else 128
        for name, value, allowed in (
            ("swizzle", swizzle, _SWIZZLE),
            ("l2_promotion", l2_promotion, _L2_PROMOTION),
            ("fill", fill, _FILL),
        ):
            if value not in allowed:
                raise trace_error(
                    f"TMA with {name}={value!r}", rule=f"{name} is one of {list(allowed)}", fix="choose one of these"
                )
        self.box = (*self.shape[:-1], self._panel_cols())
        self._map = tma.TMA(
            self.box, array.type, _SWIZZLE[swizzle], _L2_PROMOTION[l2_promotion], _FILL[fill]
        )
        all_rows = (1, *self.shape)[-2]
        self.rows: Int = all_rows if rows is None else rows
        fits = array.ndim > 1 and (not isinstance(rows, int) or 1 <= rows <= all_rows)
        if rows is not None and not fits:
            raise trace_error(
                f"TMA with rows={rows} and a tile of shape {self.shape}",
                rule="of a tile's rows, its last axis but one, 1 or more are copied",
                fix=f"pass 1 to {all_rows}, or leave it out: all are copied",
            )
        made = self._map.create_descriptor(array, None if rows is None else (*self.box[:-2], rows, self.box[-1]))
        if by_rows:
            made.owner.attributes[tensor_copies.PROMOTED_BY_ROWS] = ir.UnitAttr.get()

    def _panel_cols(self) -> int:
        cols, width = self.shape[-1], self.swizzle // self.dtype.bytes
        if not width or cols <= width:
            return cols
        if cols % width:
            raise trace_error(
                f"a tile row of {cols} {self.dtype.name} ({cols * self.dtype.bytes} bytes), swizzle {self.swizzle}",
                rule="a row wider than the swizzle is copied in panels of the swizzle's width",
                fix=f"use a multiple of {width} columns",
            )
        return width

    @property
    def bytes(self) -> Int:
        """Bytes that one load adds to its mbarrier (out-of-bounds elements are filled, and count). An int, unless
        ``rows`` is traced."""
        count = self.dtype.bytes * self.shape[-1]
        for extent in self.shape[:-2]:
            count *= extent
        return self.rows * count

    def prefetch(self, predicate: Bool | None = None) -> None:
        """Bring the tensor map itself into the cache (``prefetch.tensormap``)."""
        self._map.prefetch(predicate)

    def load(
        self,
        tile: Tile | Array,
        barrier: Mbarrier,
        coords: Coords,
        *,
        predicate: Bool | None = None,
        multicast_mask: Int | None = None,
        l2_hint: Int | None = None,
    ) -> None:
        """Copy the tile at ``coords`` (row, column) into shared memory; its bytes complete on ``barrier``.

        One thread calls it, after it has told the barrier to expect ``self.bytes`` (``cp.async.bulk.tensor``).
        ``multicast_mask``: the blocks of the cluster that get the tile, one bit for each rank. ``l2_hint``: one of
        `L2_EVICT_FIRST`, `L2_EVICT_NORMAL`, `L2_EVICT_LAST`, or a traced i64 of them. With ``predicate`` only threads
        where it is true do so.
        """
        for memory, at in self._boxes(tile, coords):
            self._map.load(
                memory, barrier, at, predicate, multicast_mask=multicast_mask, l2_hint=l2_hint
            )

    def store(
        self, tile: Tile | Array, coords: Coords, *, predicate: Bool | None = None, l2_hint: Int | None = None
    ) -> None:
        """Copy a tile of shared memory to ``coords``; elements outside of the array are dropped (but see `TMA`).

        One thread calls it, and then `bulk_commit_group` and `bulk_wait_group`. Before that, all threads that wrote the
        tile execute `fence_proxy_async` and meet at a barrier. ``l2_hint``, ``predicate``: as of `load`.
        """
        for memory, at in self._boxes(tile, coords):
            self._map.store(memory, at, predicate, l2_hint=l2_hint)

    def reduce_add(self, tile: Tile | Array, coords: Coords, *, l2_hint: Int | None = None) -> None:
        """Like `store`, but adds to what is there (``cp.reduce.async.bulk.tensor.add``)."""
        for memory, at in self._boxes(tile, coords):
            self._map.reduce_add(memory, at, l2_hint=l2_hint)

    def prefetch_tile(self, coords: Coords, *, l2_hint: Int | None = None) -> None:
        """Bring the tile at ``coords`` into L2 (``cp.async.bulk.prefetch.tensor``)."""
        for panel in range(self.shape[-1] // self.box[-1]):
            self._map.prefetch_box(self._coords(coords, panel), l2_hint=l2_hint)

    def _boxes(self, tile: Tile | Array, coords: Coords) -> list[tuple[Array, list[Int]]]:
        if isinstance(tile, Array):
            if self.box != self.shape or tile.shape != self.shape:
                raise trace_error(
                    f"TMA of a tile {self.shape} in boxes of {self.box}, with a memref of shape {tile.shape}",
                    rule="a plain memref is filled by one box of its own shape",
                    fix="copy into a tile: nv.smem((rows, cols), dtype, swizzle=...)",
                )
            return [(tile, self._coords(coords, 0))]
        rows = 1
        for extent in self.shape[:-1]:
            rows *= extent
        expected = (rows, self.shape[-1])
        fits = isinstance(tile, Tile) and (tile.layout.rows, tile.layout.cols) == expected
        if not fits or tile.swizzle != self.swizzle or not _same_elements(tile.dtype, self.dtype):
            other = ""
            if isinstance(tile, Tile) and len(self.shape) == 2 and _same_elements(tile.dtype, self.dtype):
                other = f", or nv.TMA(array, {(tile.layout.rows, tile.layout.cols)}, swizzle={tile.swizzle})"
            raise trace_error(
                f"TMA of {expected} {self.dtype.name}, swizzle {self.swizzle}, with {tile!r}",
                rule="the tensor map's tile and the tile in shared memory have one shape, dtype and swizzle: TMA "
                "converts nothing (integers of the same width hold the bits)",
                fix=f"nv.smem({expected}, nv.{self.dtype.name}, swizzle={self.swizzle}){other}; of a stack, one stage",
            )
        panels = self.shape[-1] // self.box[-1]
        _check_alignment(tile, panels)
        return [(tile.panel(p, self.box, self.dtype), self._coords(coords, p)) for p in range(panels)]

    def _coords(self, coords: Coords, panel: int) -> list[Int]:
        """Innermost first, as the instructions take them, with the panel's column added."""
        if not isinstance(coords, Sequence):
            raise trace_error(
                f"{coords!r} as the coordinates of a tile of shape {self.shape}",
                rule="a TMA copy takes a coordinate for each axis: load(tile, mbarrier, coords), store(tile, coords)",
                fix=f"pass a tuple of {len(self.shape)}",
            )
        if len(coords) != len(self.shape):
            raise trace_error(
                f"{len(coords)} coordinates for a tile of shape {self.shape}",
                rule="a TMA copy takes one coordinate for each axis of the array, in the array's order",
                fix=f"pass {len(self.shape)} coordinates",
            )
        *outer, col = coords
        return [col + panel * self.box[-1] if panel else col, *reversed(outer)]


def _same_elements(tile: dtypes.DType, array: dtypes.DType) -> bool:
    """Whether a tile may hold what TMA copies of an array, bit by bit. One of them an integer: the bits are meant."""
    if tile is array or {tile, array} == {dtypes.f32, dtypes.tf32}:
        return True
    return tile.bits == array.bits and not (tile.is_float and array.is_float)


def _check_alignment(tile: Tile, panels: int) -> None:
    first = tile.offset if isinstance(tile.offset, int) else 0  # a traced start is not checked
    starts = [first + p * tile.layout.panel_stride for p in range(panels)]
    wrong = [start for start in starts if start % arch.TMA_SMEM_ALIGNMENT]
    if wrong:
        raise trace_error(
            f"TMA with {tile!r}: a box would lie at byte {wrong[0]} of shared memory",
            rule=f"a box lies at a multiple of {arch.TMA_SMEM_ALIGNMENT} bytes (PTX ISA, cp.async.bulk.tensor)",
            fix="make the tile's rows a multiple of 8, and take parts of whole panels",
        )
