"""Fragments and vectors to and from memory: arrays, with or without bounds, and tiles in shared memory.

Two neighbours of a row go in one access where the memory allows it; 16-bit fragments go to and from tiles as whole 8x8
matrices (stmatrix, ldmatrix).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nvdsl.errors import TraceError, trace_error
from nvdsl.ir.linear import greatest_divisor
from nvdsl.lang.array import Array
from nvdsl.lang.axis import Axis
from nvdsl.lang.distributed import Grid
from nvdsl.lang.packing import pair_vector
from nvdsl.lang.tile import Tile
from nvdsl.layout import FRAGMENT_COLS, FRAGMENT_ROWS
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import scf
from nvdsl.ops.pointer import index
from nvdsl.ops.smem import ldmatrix, stmatrix
from nvdsl.ops.warp import lane_id, warpgroup_thread
from nvdsl.values import select
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, as_value, cast, wrap
from nvdsl.values.typing import Coords, Int, Number

if TYPE_CHECKING:
    from nvdsl.lang.fragment_vector import FragmentVector


# --- vectors -------------------------------------------------------------------------------------


def load_vector(axis: Axis, x: Array, start: Int | Coords, clip: bool, other: Number) -> list[Value]:
    """This thread's elements of the last axis of ``x``, from ``start`` on."""
    *before, begin = _places(x, start, (axis.extent,), clip)
    first = axis.first() + begin
    found = []
    for offset in axis.offsets:
        at = first + offset
        if clip:
            inside = at < _extent(x, -1)
            value = x[(*before, select.min(at, _extent(x, -1) - 1))]
            found.append(select.select(inside, value, cast(other, x.dtype)))
        else:
            found.append(x[(*before, at)])
    return found


def store_vector(v: FragmentVector, out: Array, start: Int | Coords, clip: bool) -> None:
    """Each value of the vector once, by the first of the threads that hold it."""
    axis = v.axis
    *before, begin = _places(out, start, (axis.extent,), clip)
    first = axis.first()
    values = v.values()
    bits = sum(axis.sharing())
    thread = warpgroup_thread() if axis.threads > 32 else lane_id()
    with _where((thread & bits) == 0):
        for offset, x in zip(axis.offsets, values, strict=True):
            at = first + begin + offset
            with _where(at < _extent(out, -1) if clip else None):
                out[(*before, at)] = x


# --- fragments and arrays ------------------------------------------------------------------------


def load(rows: Axis, cols: Axis, x: Array, start: Coords, clip: bool, other: Number) -> Grid:
    """This thread's elements of the last two axes of ``x``, from ``start`` on."""
    *before, top, left = _places(x, start, (rows.extent, cols.extent), clip)
    row0, col0 = rows.first() + top, cols.first() + left
    even = not clip or greatest_divisor(_extent(x, -1)) % 2 == greatest_divisor(left) % 2 == 0
    together = 2 if even and _in_pairs(x, cols, left) else 1

    def elements(row: Value, col: Value) -> list[Value]:
        if together == 1:
            return [x[(*before, row, col)]]
        pair = x.load_vector((*before, index(row), index(col)), 2)
        return [wrap(pair[i], x.dtype) for i in (0, 1)]

    def clipped(row: Value, col: Value) -> list[Value]:
        r, c = select.min(row, _extent(x, -2) - 1), select.min(col, _extent(x, -1) - together)
        inside = (row < _extent(x, -2)) & (col < _extent(x, -1))
        return [select.select(inside, found, cast(other, x.dtype)) for found in elements(r, c)]

    one = clipped if clip else elements
    grid = []
    for row in (row0 + down for down in rows.offsets):
        grid.append([found for right in cols.offsets[::together] for found in one(row, col0 + right)])
    return grid


def store(grid: Grid, rows: Axis, cols: Axis, out: Array, start: Coords, clip: bool) -> None:
    """Write this thread's elements to the last two axes of ``out``, from ``start`` on."""
    *before, top, left = _places(out, start, (rows.extent, cols.extent), clip)
    row0, col0 = rows.first(), cols.first()
    even = not clip or greatest_divisor(_extent(out, -1)) % 2 == 0
    pairs = even and _in_pairs(out, cols, left)
    for r, down in enumerate(rows.offsets):
        row = row0 + top + down
        with _where(row < _extent(out, -2) if clip else None):
            for c, right in list(enumerate(cols.offsets))[:: 2 if pairs else 1]:
                col = col0 + left + right
                with _where(col < _extent(out, -1) if clip else None):
                    if pairs:
                        pair = pair_vector(grid[r][c], grid[r][c + 1], out.dtype)
                        out.store_vector(pair, (*before, index(row), index(col)))
                    else:
                        out[(*before, index(row), index(col))] = grid[r][c]


def _in_pairs(x: Array, cols: Axis, left: Int) -> bool:
    """Whether two neighbours of a row can go in one access: aligned, as the array's first element is."""
    *steps, right = x.strides
    dense = isinstance(right, int) and right == 1 and all(greatest_divisor(step) % 2 == 0 for step in steps)
    return dense and _are_pairs(cols) and (not isinstance(left, int) or left % 2 == 0)


def _are_pairs(cols: Axis) -> bool:
    """Whether a thread's columns come in pairs of neighbours, the first of which is even."""
    starts, ends = cols.offsets[::2], cols.offsets[1::2]
    if len(starts) != len(ends) or any(stride % 2 for _, stride in cols.lanes.leaves()):
        return False
    return all(a % 2 == 0 and b == a + 1 for a, b in zip(starts, ends, strict=True))


def _extent(x: Array, axis: int) -> Any:
    return x.shape[axis]


def _places(x: Array, start: Int | Coords, shape: Sequence[int], clip: bool) -> list[Any]:
    """``start`` as one integer for each axis. Raises TraceError where ``shape`` does not fit there."""
    at = list(start) if isinstance(start, Sequence) else [start]
    if not isinstance(x, Array) or len(at) != x.ndim or x.ndim < len(shape):
        raise _unfit(x, at, shape)
    whole = [1] * (x.ndim - len(shape)) + list(shape)
    for first, size, extent in zip(at, whole, x.shape, strict=True):
        known = first if isinstance(first, int) else 0
        beyond = isinstance(extent, int) and 0 <= extent < known + (1 if clip else size)
        if known < 0 or beyond:
            raise _unfit(x, at, shape)
    return at


def _unfit(x: Any, at: Sequence[Any], shape: Sequence[int]) -> TraceError:
    places = ", ".join(str(s) if isinstance(s, int) else "..." for s in at)
    what = f"a fragment of {shape[0]} x {shape[1]}" if len(shape) == 2 else f"a vector of {shape[0]}"
    return trace_error(
        f"{what} at ({places}) of {x!r}",
        rule="there is an index for each axis of the array, and the last axes have room for all of its elements",
        fix="choose a tile that divides the array, or pass clip=True, which leaves out what lies beyond its edges",
    )


@contextmanager
def _where(condition: Value | bool | None) -> Iterator[None]:
    """Ops that are executed where ``condition`` holds; None: everywhere."""
    if condition is None or condition is True:
        yield
        return
    branch = scf.IfOp(as_value(condition))
    with ir.InsertionPoint(branch.then_block):
        yield
        scf.yield_([])


# --- fragments and tiles -------------------------------------------------------------------------


def check_tile(tile: Tile, shape: tuple[int, int], what: str) -> None:
    """Raise TraceError for a tile of another shape."""
    if tile.shape != shape:
        raise trace_error(
            f"{what} of a {shape[0]} x {shape[1]} fragment and a tile of {tile.shape[0]} x {tile.shape[1]}",
            rule="a tile takes and gives a fragment of its own shape",
            fix="tile.rows(start, count) and tile.cols(start, count) are parts of a tile",
        )


def as_matrices(tile: Tile, cols: Axis, rows: Axis, dtype: DType) -> bool:
    """Whether a fragment goes to the tile, or comes from it, as 8x8 matrices of 16-bit elements."""
    by_quads = rows.threads == 128 and _are_pairs(cols) and len(cols.offsets) == cols.extent // 4
    return tile.dtype.bits == 16 and dtype.bits == 16 and by_quads


def store_words(words: Sequence[Sequence[Value]], tile: Tile) -> None:
    """stmatrix of packed registers: ``words[block]`` are those of 64 rows, in the order of an accumulator's pairs."""
    for pointer, block, first, count in _matrices(tile, [len(block) for block in words]):
        stmatrix(pointer, list(words[block][first : first + count]), transpose=tile.transposed)


def load_words(tile: Tile) -> list[list[Value]]:
    """The packed registers of a tile of 16-bit elements, by ldmatrix, a list for each 64 rows."""
    found: list[list[Value]] = [[] for _ in range(tile.shape[0] // 64)]
    for pointer, block, _, count in _matrices(tile, [tile.shape[1] // 4] * len(found)):
        found[block] += ldmatrix(pointer, count, transpose=tile.transposed)
    return found


def _matrices(tile: Tile, counts: Sequence[int]) -> Iterator[tuple[Any, int, int, int]]:
    """(pointer, block of 64 rows, first register, registers) of each group of matrices: four, or two at the end."""
    thread = warpgroup_thread()
    of_lanes = FRAGMENT_COLS if tile.transposed else FRAGMENT_ROWS
    of_four = of_lanes(thread)
    of_two = of_lanes(thread - thread % 32 + thread % 16)  # lanes 16 to 31 give no address then
    if tile.transposed:  # the fragment's columns are the stored rows; 8 of them further, the swizzle is the same
        for block, count in enumerate(counts):
            for first in range(0, count, 4):
                row, col = of_two if count - first == 2 else of_four
                byte = tile.layout.offset(row, col + block * 64) + tile.layout.offset(first * 4, 0)
                yield tile.pointer(byte), block, first, min(4, count - first)
        return
    steps = tile.layout.panel_cols if tile.swizzle > 16 else 16
    for block, count in enumerate(counts):
        for left in range(0, count * 4, steps):
            row, col = of_two if count - left // 4 == 2 else of_four
            start: Any = tile.layout.offset(row + block * 64, col + left)
            for first in range(left // 4, min(count, (left + steps) // 4), 4):
                byte = (first * 4 - left) * 2  # within a panel the swizzle is an XOR, as is this step
                pointer = tile.pointer(start ^ byte if byte else start)
                yield pointer, block, first, min(4, count - first)


def store_pairs(grid: Grid, rows: Axis, cols: Axis, tile: Tile) -> None:
    """Write this thread's elements to a tile of any type, two neighbours in one access where it can be."""
    row0, col0 = rows.first(), cols.first()
    pairs = _are_pairs(cols) and not tile.transposed
    for r, down in enumerate(rows.offsets):
        for c, right in list(enumerate(cols.offsets))[:: 2 if pairs else 1]:
            at = (row0 + down, col0 + right)
            if pairs:
                tile.store_vector(pair_vector(grid[r][c], grid[r][c + 1], tile.dtype), at)
            else:
                tile[at] = grid[r][c]


def load_elements(rows: Axis, cols: Axis, tile: Tile) -> Grid:
    """Read this thread's elements of a tile of any type, one by one."""
    row0, col0 = rows.first(), cols.first()
    return [[tile[row0 + down, col0 + right] for right in cols.offsets] for down in rows.offsets]

