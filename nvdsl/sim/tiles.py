"""The tiles that a kernel declared (`nvdsl.declared`), by their addresses in shared memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nvdsl.errors import Where
from nvdsl.ir import declared
from nvdsl.ir.declared import Declared
from nvdsl.layout import TileLayout
from nvdsl.sim import geometry, matrix
from nvdsl.sim.memory import SHARED_BASE
from nvdsl.sim.report import Access, error

UNIT = geometry.UNIT


class Tiles:
    """Of one kernel, whose dynamic shared memory has ``size`` bytes."""

    def __init__(self, size: int, tiles: Iterable[Declared]) -> None:
        self._tiles, self._size = tuple(tiles), size
        self._places: Any = None
        self._laid_by: dict[Any, Any] = {}
        self._checked: set[Any] = set()

    def at(self, address: int) -> tuple[Declared, int] | None:
        """The tile that wgmma can read and that holds an address, and the address of its stage's start."""
        for tile in self._tiles:
            stage = tile.stage(address - SHARED_BASE) if tile.swizzle else None
            if stage is not None:
                return tile, SHARED_BASE + tile.offset + stage * tile.stride
        return None

    def check_operand(self, descriptor: int, rows: int, major: str, who: Access, origin: Any) -> None:
        """Raise where an operand goes beyond its tile. ``origin``: the address of the tile that its descriptor was made
        of, None where that isn't known: then it is the tile in which the operand begins."""
        key = descriptor, rows, major, origin if origin.__class__ is int else None
        if not self._tiles or key in self._checked:
            return
        first = matrix.decode(descriptor).start
        found = self.at(first if key[3] is None else origin)
        if found is not None:
            tile, start = found
            units = matrix._units(descriptor, rows, major) * UNIT
            low, high = int(units.min()) - start, int(units.max()) + UNIT - start
            if low < 0 or high > tile.layout.bytes:
                raise error(
                    "operand-beyond",
                    f"{who} reads bytes {low} to {high - 1} of a {tile}, which has {tile.layout.bytes:,} bytes (the "
                    f"descriptor says that the operand begins at byte {first - start} of it)",
                    who.where,
                    "an operand lies within the tile that its descriptor was made of",
                    "check the number of K steps, how far each advances the descriptor, and its strides",
                )
        self._checked.add(key)

    def check_view(self, w: Any, address: int, size: int, at: Where | None) -> None:
        """Raise where memory that is laid out by hand cuts into a tile."""
        start = address - SHARED_BASE
        tile = declared.overlapped(self._tiles, start, start + size)
        if tile is not None:
            raise error(
                "overlap",
                f"{w.name} lays out bytes {start} to {start + size - 1} of shared memory by hand, and bytes "
                f"{tile.offset} to {tile.end - 1} are a {tile}",
                at,
                declared.OVERLAP_RULE,
                declared.OVERLAP_FIX,
            )

    def places(self) -> Any:
        """(tile and stage by number, place in it) of each unit of shared memory, and each number's tile."""
        if self._places is None:
            count = -(-(SHARED_BASE + self._size) // UNIT)
            numbers, where = np.zeros(count, np.int32), np.zeros(count, np.int32)
            known: list[Any] = []
            for tile in self._tiles:
                if tile.swizzle:
                    units = _units(tile.layout)
                    for stage in range(tile.stages):
                        known.append(tile)
                        mine = units + (SHARED_BASE + tile.offset + stage * tile.stride) // UNIT
                        numbers[mine], where[mine] = len(known), np.arange(len(mine))
            self._places = numbers, where, known
        return self._places

    def laid_by(self, view: Any) -> Any:
        """The first two of `places`, but only of tiles that were allocated with a view's swizzle and panel stride."""
        key = tuple(view)
        if key not in self._laid_by:
            numbers, where, known = self.places()
            fits = [0, *(i if key == (t.swizzle, t.layout.panel_stride) else 0 for i, t in enumerate(known, 1))]
            self._laid_by[key] = np.array(fits, np.int32)[numbers], where
        return self._laid_by[key]


def _units(layout: TileLayout) -> Any:
    """Where each 16-byte unit of a tile lies, in units from its start, row by row."""
    width = layout.cols * layout.itemsize // UNIT
    per = UNIT // layout.itemsize
    row: Any = np.arange(layout.rows)[:, None]  # as many coordinates at once
    unit: Any = np.arange(width)[None]
    return (layout.offset(row, unit * per) // UNIT).reshape(-1)
