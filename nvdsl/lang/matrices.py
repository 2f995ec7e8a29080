"""8x8 matrices of a tile by row and column: ldmatrix and stmatrix, with the lanes' addresses from the tile's layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nvdsl.errors import trace_error
from nvdsl.layout import E, Layout
from nvdsl.ops import smem
from nvdsl.ops.warp import lane_id
from nvdsl.values import bounds
from nvdsl.values.traced import Value
from nvdsl.values.typing import Int, Pointer

if TYPE_CHECKING:
    from nvdsl.lang.tile import Tile

ROWS = 8
UNIT = 16
"""A matrix has 8 rows of 16 bytes."""


def ldmatrix(
    self: Tile, key: tuple[Int, Int], count: int = 4, *, transpose: bool = False, matrices: Layout | None = None
) -> list[Value]:
    """Load 1, 2 or 4 matrices of 8 rows of 16 bytes from (row, column) on (``ldmatrix.sync.aligned.m8n8.xN.b16``).

    All lanes of a warp call it, with one ``key``. Returns ``count`` i32 registers: of matrix i, lane l holds 4 bytes
    of row ``l // 4``, the ``l % 4``-th; with ``transpose`` two 16-bit elements of column ``l // 4``. Elements of other
    types are moved as their bits. The matrices lie as those of a 16 x 16 operand do, for 16-bit elements: the first
    one, the 8 rows below it, and both 16 bytes to the right. ``matrices`` says otherwise: a layout that takes a
    matrix's number to the (row, column) at which it starts, beside ``key``: ``Layout(4, E(0, 8))`` are four side by
    side.

    Raises TraceError for a column in the middle of a row's 16 bytes, and for what does not lie in the tile.
    """
    return smem.ldmatrix(_pointer(self, "ldmatrix", key, count, transpose, matrices), count, transpose=transpose)


def stmatrix(
    self: Tile,
    registers: Sequence[Value],
    key: tuple[Int, Int],
    *,
    transpose: bool = False,
    matrices: Layout | None = None,
) -> None:
    """Store 1, 2 or 4 matrices from i32 registers of a warp, which hold and lie as in `ldmatrix`
    (``stmatrix.sync.aligned.m8n8.xN.b16``)."""
    pointer = _pointer(self, "stmatrix", key, len(registers), transpose, matrices)
    smem.stmatrix(pointer, registers, transpose=transpose)


def _pointer(
    tile: Tile, what: str, key: tuple[Int, Int], count: int, transpose: bool, matrices: Layout | None
) -> Pointer:
    itemsize = tile.dtype.bytes
    if count in (1, 2, 4):
        matrices = matrices or Layout((2, 2), (E(ROWS, 0), E(0, UNIT // itemsize)))
        _check(tile, what, key, count, transpose, matrices)
    else:
        matrices = Layout((2, 2), (E(0, 0), E(0, 0)))  # refused by the instruction
    lane = lane_id()
    places = [matrices(i) for i in range(count)] + [E(0, 0)] * 4
    one, two = (E(*(place[k] - places[0][k] for k in (0, 1))) for place in places[1:3])
    steps = (one if count > 1 else E(0, 0), two if count == 4 else E(0, 0))
    row, col = Layout((ROWS, 2, 2), (E(1, 0), *steps))(lane)
    first = key[0] + places[0][0], key[1] + places[0][1]
    return tile.pointer(tile.layout.offset(row + first[0], col + first[1]))


def _check(tile: Tile, what: str, key: Any, count: int, transpose: bool, matrices: Layout) -> None:
    itemsize, per = tile.dtype.bytes, UNIT // tile.dtype.bytes
    places = [matrices(i) for i in range(count)] if matrices.axes == 2 else []
    fits = matrices.size >= count and places and all(row >= 0 <= col and col % per == 0 for row, col in places)
    if count == 4 and fits:
        fits = all(places[0][k] + places[3][k] == places[1][k] + places[2][k] for k in (0, 1))
    if not fits:
        raise trace_error(
            f"{what} of {count} matrices that lie at {matrices}",
            rule=f"a layout takes each matrix's number to the (row, column) where it starts, at a multiple of {per} "
            "columns",
            fix=f"Layout((2, 2), (E(8, 0), E(0, {per}))), which is meant without one",
        )
    if tile.transposed or transpose and itemsize != 2:
        raise trace_error(
            f"{what}{' with transpose=True' * transpose} of {tile!r}{', a transposed view' * tile.transposed}",
            rule="it moves rows of 16 bytes as they are stored, and transposes 16-bit elements (PTX ISA, ldmatrix)",
            fix="name the tile itself, and transpose=True for columns of 16-bit elements",
        )
    rows = tile.layout.rows - max(row for row, _ in places) - ROWS + 1
    cols = tile.layout.cols - max(col for _, col in places) - per + 1
    for name, start, extent in zip(("row", "column"), key, (rows, cols), strict=True):
        wrong = isinstance(start, int) and (not 0 <= start < extent or name == "column" and start % per)
        if wrong or extent < 1:
            raise trace_error(
                f"{what} of {count} matrices from {name} {start if isinstance(start, int) else '...'} on of {tile!r}",
                rule=f"matrices of 8 rows of {per} columns lie within the tile, and start at a multiple of {per} "
                "columns",
                fix=f"choose a row below {max(rows, 0)} and a column below {max(cols, 0)}",
            )
    of = f"the matrices of a tile of {tile.layout.rows}x{tile.layout.cols} {tile.dtype.name}"
    bounds.within(of, key, (rows, cols))
