"""Parts of tiles: which rows and columns keep a tile's swizzle, and where they start."""

from __future__ import annotations

from typing import Any

from nvdsl.errors import trace_error
from nvdsl.lang.slices import Part, part
from nvdsl.layout import TileLayout
from nvdsl.values import bounds
from nvdsl.values.typing import Int


def rows(layout: TileLayout, start: Int, count: int, of: str) -> tuple[TileLayout, Int]:
    """The layout of some rows, and the byte at which they start. ``of``: the tile, in messages."""
    multiple = 8 if layout.swizzle else 1
    for name, value in (("start", start), ("count", count)):
        if isinstance(value, int) and value % multiple:
            raise trace_error(
                f"rows() with {name} {value}",
                rule="the swizzle pattern repeats every 8 rows, so a part of a tile starts at a multiple of 8",
                fix="use multiples of 8 rows",
            )
    _check("rows", start, count, layout.rows, multiple, of)
    return layout.take_rows(count), start * layout.row_stride


def cols(layout: TileLayout, start: Int, count: int, of: str) -> tuple[TileLayout, Int]:
    """The layout of some columns, and the byte at which they start: whole panels, or any where there is no swizzle."""
    width = layout.panel_cols if layout.swizzle else 1
    _check("cols", start, count, layout.cols, width, of)
    if isinstance(start, int) and start % width or count % width:
        raise trace_error(
            f"cols({start}, {count}) of a tile with panels of {width} columns",
            rule="a part of a tile takes whole panels",
            fix=f"use multiples of {width} columns",
        )
    step = layout.panel_stride if layout.swizzle else layout.itemsize
    return layout.take_panels(count), start // width * step


def slices(key: tuple[Any, ...], shape: tuple[int, int]) -> list[tuple[Int, int] | None]:
    """(start, count) of each axis of ``tile[r0:r1, c0:c1]``; None for all of it."""
    found = [part(key[axis], axis, shape[axis], "tile.rows(start, count)") for axis in (0, 1)]
    for one in found:
        if one.is_index or one.step != 1:
            raise trace_error(
                f"a tile indexed with {'a number and a slice' if one.is_index else f'a slice of step {one.step}'}",
                rule="a part of a tile has rows and columns, one beside the other",
                fix="tile[i : i + 1, :] for a row, tile.vector((i, j), 8) for some of its elements",
            )
    pairs = zip(found, shape, strict=True)
    return [None if _is_whole(one, extent) else (one.start, one.extent) for one, extent in pairs]


def _is_whole(one: Part, extent: int) -> bool:
    return isinstance(one.start, int) and one.extent == extent


def _check(what: str, start: Int, count: int, extent: int, multiple: int, of: str) -> None:
    first = start if isinstance(start, int) else 0
    if not 0 <= first < first + count <= extent:
        raise trace_error(
            f"{what}({first if start is first else '...'}, {count}) of a tile of {extent} {what}",
            rule=f"a part of a tile lies within it: {what} 0 to {extent - 1}",
            fix="check the start and the count",
        )
    bounds.within(f"the first of {count} {what} of {of}", (start,), (extent - count + 1,), multiple=multiple)
