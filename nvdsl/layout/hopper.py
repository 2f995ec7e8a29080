"""Hopper's own layouts: register fragments, the matrices of ldmatrix and stmatrix, the boxes of TMA.

A fragment takes (thread, value) to a coordinate of the matrix. All are stated in the algebra; the simulator and the
verifier have formulas of their own, and tests compare the two. Source: PTX ISA, at each.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, overload

from nvdsl.errors import layout_error
from nvdsl.layout.algebra import composition
from nvdsl.layout.core import Layout
from nvdsl.layout.inverses import right_inverse
from nvdsl.layout.make import identity
from nvdsl.layout.memory import upcast
from nvdsl.layout.strides import E
from nvdsl.layout.tile import TileLayout

if TYPE_CHECKING:
    from nvdsl.values.traced import Value
    from nvdsl.values.typing import Int


def _whole(said: str, extent: int, unit: int, also: int = 0) -> None:
    """Raise LayoutError unless an extent is a multiple of ``unit``, or ``also``: else a fragment would be smaller."""
    if not isinstance(extent, int) or extent <= 0 or extent % unit and extent != also:
        raise layout_error(
            f"{said} = {extent!r} of a fragment",
            rule=f"{said} is {f'{also}, or ' if also else ''}a multiple of {unit} (PTX ISA, matrix fragments)",
            fix="round it up, and pad the matrix",
        )


def _of_bytes(itemsize: int, sizes: tuple[int, ...]) -> None:
    if itemsize not in sizes:
        *most, last = map(str, sizes)
        raise layout_error(
            f"elements of {itemsize!r} bytes in a fragment",
            rule=f"elements of {', '.join(most)} or {last} bytes (PTX ISA, matrix fragments)",
            fix="dtype.bytes",
        )


def wgmma_accumulator(n: int) -> Layout:
    """Map (thread of the warpgroup, value) to (row, column) of D, 64 x n. A thread has n / 2 values.

    PTX ISA, "Register Fragments for wgmma.mma_async": four values repeat every 8 columns. Values are in
    the order of the registers. Raises LayoutError unless ``n`` is a multiple of 8.
    """
    _whole("n", n, 8)
    return Layout(((4, 8, 4), (2, 2, n // 8)), ((E(0, 2), E(1, 0), E(16, 0)), (E(0, 1), E(8, 0), E(0, 8))))


def wgmma_a(itemsize: int) -> Layout:
    """Map (thread of the warpgroup, (element of a register, register)) to (row, column) of A, 64 rows of 32 bytes.

    A register holds ``4 // itemsize`` elements (PTX ISA, register fragments of A for .f16, .tf32, .e4m3 ...). Raises
    LayoutError for other elements.
    """
    _of_bytes(itemsize, (1, 2, 4))
    lanes, values = mma_a(itemsize)
    return Layout(((*lanes.shape, 4), values.shape), ((*lanes.stride, E(16, 0)), values.stride))


def mma_a(itemsize: int, k: int = 0, m: int = 16) -> Layout:
    """Map (lane, (element of a register, register)) to (row, column) of A of mma.sync: ``m`` rows of ``k`` elements.

    A register holds ``4 // itemsize`` elements, or one f64. ``k``: 32 bytes unless given; ``m``: 8, or a multiple of
    16, which come after each other. PTX ISA, "Matrix Fragments for mma.m16n8k16" (2 bytes), "m16n8k8" (.tf32),
    "m16n8k32" (1 byte), "mma.m16n8k4" (.f64) and kin. Raises LayoutError for extents that are no whole fragments.
    """
    _whole("m", m, 16, 8)
    per, groups = _per_register(itemsize, k)
    shape, stride = (min(m, 16) // 8, groups, m // 16)[: 3 if m > 16 else 2], (E(8, 0), E(0, 4 * per), E(16, 0))
    return Layout(((4, 8), (per, shape)), ((E(0, per), E(1, 0)), (E(0, 1), stride[: len(shape)])))


def mma_b(itemsize: int, k: int = 0, n: int = 8) -> Layout:
    """Map (lane, (element of a register, register)) to (k, column) of B of mma.sync: ``k`` rows (32 bytes unless given)
    of ``n`` columns, 8 after the other. Raises LayoutError for extents that are no whole fragments."""
    _whole("n", n, 8)
    per, groups = _per_register(itemsize, k)
    lanes = (4, 8), (E(per, 0), E(0, 1))
    if n == 8:
        return Layout((lanes[0], (per, groups)), (lanes[1], (E(1, 0), E(4 * per, 0))))
    return Layout((lanes[0], (per, (groups, n // 8))), (lanes[1], (E(1, 0), (E(4 * per, 0), E(0, 8)))))


def _per_register(itemsize: int, k: int) -> tuple[int, int]:
    """Elements of a register, and registers along K."""
    _of_bytes(itemsize, (1, 2, 4, 8))
    per = max(4 // itemsize, 1)
    k = k or 32 // itemsize
    _whole("k", k, 4 * per)
    return per, k // (4 * per)


def mma_c(m: int = 16, n: int = 8) -> Layout:
    """Map (lane, value) to (row, column) of C and D of mma.sync, ``m x n`` of one warp.

    16 rows come after the other, and in each of them 8 columns after the other: where m is 16 it is a warp's part of
    `wgmma_accumulator`. PTX ISA, "Matrix Fragments for mma". Raises LayoutError unless ``m`` is 8 or a multiple of 16,
    and ``n`` of 8.
    """
    _whole("m", m, 16, 8)
    _whole("n", n, 8)
    return Layout(
        ((4, 8), (2, min(m, 16) // 8, n // 8, max(m // 16, 1))),
        ((E(0, 2), E(1, 0)), (E(0, 1), E(8, 0), E(0, 8), E(16, 0))),
    )


MMA_C = Layout(((4, 8), (2, 2)), ((E(0, 2), E(1, 0)), (E(0, 1), E(8, 0))))
"""(lane, value) to (row, column) of C and D of mma.sync.m16n8, 32-bit values: one warp's first 8 columns of
`wgmma_accumulator`."""


def matrix_values(*, transpose: bool = False) -> Layout:
    """Map (lane, 16-bit half of its register) to (row, column) of an 8x8 matrix of ldmatrix and stmatrix.

    PTX ISA, "ldmatrix": ``.trans`` exchanges rows and columns.
    """
    rows, cols = (E(0, 1), E(1, 0)) if transpose else (E(1, 0), E(0, 1))
    return Layout(((4, 8), 2), ((2 * cols, rows), cols))


def matrix_rows(count: int) -> Layout:
    """Map a lane to the (row, matrix) whose address it gives to an ldmatrix or stmatrix of ``count`` matrices.

    The addresses of lanes ``8 * count`` and later are not read (PTX ISA, "ldmatrix", table of threads and rows).
    Raises LayoutError for other counts than 1, 2 and 4.
    """
    if count not in (1, 2, 4):
        raise layout_error(
            f"{count!r} matrices", rule="ldmatrix and stmatrix have 1, 2 or 4 (PTX ISA, ldmatrix)", fix="one of these"
        )
    return identity(8, count)


FRAGMENT_ROWS = Layout((16, 2, 4), (E(1, 0), E(0, 8), E(16, 0)))
"""Thread of the warpgroup to the (row, column) at which it gives an address to ldmatrix.x4 or stmatrix.x4, for 16-bit
elements: the four matrices are rows 0-7 and 8-15 of a warp's 16, of 8 columns and of the next 8. Their registers are
then those of `mma_a`, and two groups of 8 columns of an accumulator packed in pairs: the epilogue's lanes."""

FRAGMENT_COLS = Layout((8, 2, 2, 4), (E(1, 0), E(0, 8), E(8, 0), E(0, 16)))
"""The same with ``.trans``, for a tile that holds the transpose: a fragment's columns are the tile's rows."""


def tma_boxes(tile: TileLayout) -> Layout:
    """Map (column of the box, row, box) to (row, column) of the tile, with the boxes in the order in which they lie.

    One box is a panel. TMA itself permutes the 16-byte units, so that boxes don't know of the swizzle (PTX ISA, "Tensor
    swizzling modes"). This is what the tile's inverse says, as coordinates.

    >>> print(tma_boxes(TileLayout.of(128, 128, 2, 128)))
    (64,128,2):(1@1,1@0,64@1)
    """
    rows, panels, width = tile.rows, tile.panels, tile.panel_cols
    plain = Layout((rows, (width, panels)), (tile.panel_bytes, (tile.itemsize, rows * tile.panel_bytes)))
    order = right_inverse(upcast(plain, tile.itemsize))
    box = Layout((width, rows, panels), (1, width, width * rows))
    return composition(composition(identity(rows, tile.cols), order), box)


_ACCUMULATOR = wgmma_accumulator(8)


@overload
def accumulator_element(thread: int, register: int) -> tuple[int, int]: ...
@overload
def accumulator_element(thread: Value, register: int) -> tuple[Value, Value]: ...


def accumulator_element(thread: Int, register: int) -> tuple[Int, Int]:
    """The (row, column) of an m64nN accumulator that 32-bit ``register`` of ``thread`` (0..127) holds, for any N.

    They are ints or traced integers, and the same as `wgmma_accumulator` gives.
    """
    return _known_element(thread, register) if isinstance(thread, int) else tuple(_ACCUMULATOR(thread, register))


@cache
def _known_element(thread: int, register: int) -> tuple[int, int]:
    """Asked for each register of each epilogue that is traced."""
    row, col = _ACCUMULATOR(thread, register)
    return row, col


_a_fragment = cache(wgmma_a)


@overload
def a_fragment_element(thread: int, register: int, itemsize: int) -> tuple[int, int]: ...
@overload
def a_fragment_element(thread: Value, register: int, itemsize: int) -> tuple[Value, Value]: ...


def a_fragment_element(thread: Int, register: int, itemsize: int) -> tuple[Int, Int]:
    """The (row, first column) of an m64kK A operand in registers that a register of a thread holds.

    A 32-bit register holds ``4 // itemsize`` consecutive columns. They are ints or traced integers, and the same as
    `wgmma_a` gives. Raises LayoutError for another ``itemsize`` than 1, 2 and 4 bytes."""
    row, col = _a_fragment(itemsize)(thread, (0, register))
    return row, col
