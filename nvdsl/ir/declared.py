"""The tiles that a kernel allocated, as the attribute `ATTRIBUTE` of its launch: where they lie, and how.

Addresses alone don't say where one tile ends and the next begins. The verifier and the simulator read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from typing import Any

from nvdsl.errors.records import dataclass
from nvdsl.layout import TileLayout
from nvdsl.mlir import ir

ATTRIBUTE = "nvdsl.tiles"
VIEW = "nvdsl.tile"
"""Of a ``memref.view``, a pointer or an address that a `Tile` made: its swizzle and its panels' distance, in bytes."""


OVERLAP_RULE = "memory laid out by hand is none of a tile's, or another view of it, from its start on"
OVERLAP_FIX = (
    "get_dynamic_shared_memory(shape, type, tile.offset) to use a tile's memory anew; nv.smem((n,), dtype) for memory "
    "to lay out by hand"
)


@dataclass(frozen=True)
class Declared:
    """A tile, or a stack of ``stages`` of them ``stride`` bytes apart, from byte ``offset`` of the kernel's shared
    memory on. Rows and columns in elements of ``itemsize`` bytes."""

    offset: int
    stages: int
    stride: int
    rows: int
    cols: int
    itemsize: int
    swizzle: int

    @property
    def layout(self) -> TileLayout:
        return TileLayout.of(self.rows, self.cols, self.itemsize, self.swizzle)

    @property
    def end(self) -> int:
        return self.offset + (self.stages - 1) * self.stride + self.layout.bytes

    def stage(self, byte: int) -> int | None:
        """The stage that holds a byte of shared memory, None where none does."""
        stage, within = divmod(byte - self.offset, self.stride)
        return stage if 0 <= stage < self.stages and within < self.layout.bytes else None

    def __str__(self) -> str:
        swizzle = f", {self.swizzle}-byte swizzle" if self.swizzle else ""
        of = f"stack of {self.stages} tiles" if self.stages > 1 else "tile"
        return f"{of} of {self.rows}x{self.cols} elements of {self.itemsize} bytes{swizzle}"


def attribute(tiles: Iterable[Declared]) -> Any:
    return ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(astuple(tile))) for tile in tiles])


def read(launch: Any) -> tuple[Declared, ...]:
    """The tiles of a ``gpu.launch`` or ``gpu.launch_func``."""
    if ATTRIBUTE not in launch.attributes:
        return ()
    return tuple(Declared(*ir.DenseI64ArrayAttr(one)) for one in ir.ArrayAttr(launch.attributes[ATTRIBUTE]))


def overlapped(tiles: Iterable[Declared], start: int, end: int) -> Declared | None:
    """The tile that memory laid out by hand, from byte ``start`` up to ``end``, cuts into; None for none.

    What starts where a tile does, and ends in it (or in its stack), is another view of the tile.
    """
    for tile in tiles:
        if start < tile.end and tile.offset < end:
            at_a_tile = (start - tile.offset) % tile.stride == 0 and start >= tile.offset
            if not at_a_tile or end > tile.offset + tile.stages * tile.stride:
                return tile
    return None
