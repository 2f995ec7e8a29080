"""Operands of mma.sync in the registers of one warp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.lang import register_move
from nvdsl.lang.array import Array
from nvdsl.lang.packing import as_elements
from nvdsl.lang.part import part
from nvdsl.lang.register_move import Move
from nvdsl.lang.tile import Tile
from nvdsl.layout import Layout, mma_a, mma_b
from nvdsl.ops import mma
from nvdsl.ops.warp import WARP_SIZE, lane_id
from nvdsl.values import dtypes, scope
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value
from nvdsl.values.typing import Coords


def load_a(
    x: Tile | Array, start: Coords | None = None, shape: tuple[int, int] | None = None, *, using: str | None = None
) -> WarpFragment:
    """Load A of mma.sync, ``m x k``, into the registers of each warp that asks.

    ``x``: a tile in shared memory, or an array of two axes; ``shape`` elements from ``start`` (row, column) on, which
    may be traced; all of it unless given. m is a multiple of 16 (or 8, for f64 and 8-bit integers), k of the least K of
    the type. Shared memory is read by ldmatrix where rows of 16 bytes allow it, transposed where ``x`` is ``tile.T`` of
    16-bit elements; else by vectors of up to 16 bytes a thread, or element by element. ``using``: "ldmatrix", "vector"
    or "scalar" asks for one of these, and is a TraceError where it does not fit.
    """
    return _load("a", x, start, shape, using)


def load_b(
    x: Tile | Array, start: Coords | None = None, shape: tuple[int, int] | None = None, *, using: str | None = None
) -> WarpFragment:
    """Load B of mma.sync, ``k x n``: as `load_a`. n is a multiple of 8. ldmatrix reads ``tile.T`` of an ``n x k`` tile
    as it lies, and a ``k x n`` tile of 16-bit elements transposed."""
    return _load("b", x, start, shape, using)


def _load(role: str, x: Any, start: Any, shape: Any, using: str | None) -> WarpFragment:
    what = f"nv.load_{role}"
    rectangle = part(x, start, shape, what)
    check_warps(what)
    dtype = dtypes.tf32 if x.dtype is dtypes.f32 else x.dtype
    values = _operand_layout(role, rectangle.shape, dtype, what)
    return WarpFragment(role, rectangle.shape, dtype, register_move.load(Move(rectangle, values), using))


def check_warps(what: str) -> None:
    threads = scope.current(what).threads
    if threads % WARP_SIZE:
        raise trace_error(
            f"{what} in a block of {threads} threads",
            rule="the matrices of mma.sync are spread over the 32 lanes of a warp (PTX ISA, mma)",
            fix=f"use a block of a multiple of {WARP_SIZE} threads",
        )


def _operand_layout(role: str, shape: tuple[int, int], dtype: DType, what: str) -> Layout:
    shapes = mma.TYPES.get((dtype.name, dtype.name), ((), ()))[1]
    if not shapes:
        raise trace_error(
            f"{what} of {dtype.name}",
            rule="mma.sync multiplies " + ", ".join(sorted({a for a, _ in mma.TYPES})) + " (PTX ISA 8.6, mma)",
            fix="convert the elements to one of these types first",
        )
    size, k = shape if role == "a" else shape[::-1]
    if role == "b":
        fits, least = size % mma.N == 0, (0, min(k for _, k in shapes))
        wanted = "a multiple of 8 columns"
    else:
        ms = {m for m, _ in shapes}
        fits, least = size % 16 == 0 or size in ms, (min(ms), min(k for m, k in shapes if size % m == 0 or m == 16))
        wanted = "a multiple of 16 rows" + (" or 8" if 8 in ms else "")
    if not fits or k % least[1]:
        raise trace_error(
            f"{what} of {shape[0]}x{shape[1]} {dtype.name}",
            rule=f"{role.upper()} of mma.sync has {wanted}, and K in steps of {least[1]} for {dtype.name}",
            fix="choose such a shape, and pad the tile with zeros",
        )
    return mma_a(dtype.bytes, k, size) if role == "a" else mma_b(dtype.bytes, k, size)


class WarpFragment:
    """A (``m x k``) or B (``k x n``) of mma.sync in the registers of a warp; `load_a` and `load_b` make one.

    ``role``: "a" or "b". ``registers``: i32 words that hold ``4 // itemsize`` elements, or f64 values, in the order of
    `layout.mma_a` or `layout.mma_b` for the whole shape. f32 in memory is tf32 here: its low 13 bits are not looked at.
    """

    __nv_unprintable__ = "for row, column, x in fragment.elements(): print(row, column, x)"

    def __init__(self, role: str, shape: tuple[int, int], dtype: DType, registers: Sequence[Value]) -> None:
        self.role, self.shape, self.dtype, self.registers = role, shape, dtype, list(registers)

    @property
    def layout(self) -> Layout:
        """(lane, value) to (row, column)."""
        return _operand_layout(self.role, self.shape, self.dtype, "a fragment")

    def elements(self) -> Iterator[tuple[Value, Value, Value]]:
        """Yield (row, column, value) of this lane's elements, tf32 as f32."""
        dtype = dtypes.f32 if self.dtype is dtypes.tf32 else self.dtype
        return elements_of(self.layout, as_elements(self.registers, dtype))

    def step(self, tile: int, at: int, k: int) -> list[Value]:
        """The registers of the mma.sync that takes ``k`` elements of K from ``at`` on, of 16 rows (or 8 columns) number
        ``tile``."""
        size, whole = self.shape if self.role == "a" else self.shape[::-1]
        tiles = max(size // (16 if self.role == "a" else mma.N), 1)
        per_tile = len(self.registers) // tiles
        each = per_tile * k // whole
        first = tile * per_tile + per_tile * at // whole
        return self.registers[first : first + each]

    @property
    def __nv_key__(self) -> tuple[Any, ...]:
        return self.role, self.shape, self.dtype

    def __nv_values__(self) -> list[Value]:
        return self.registers

    def __nv_rebuild__(self, values: Sequence[Value]) -> WarpFragment:
        return WarpFragment(self.role, self.shape, self.dtype, values)

    def __matmul__(self, other: WarpFragment | Tile) -> WarpProduct:
        """The product, to be added to a `WarpAccumulator`: ``acc += a @ b``."""
        return WarpProduct(self, other)

    def __repr__(self) -> str:
        return f"WarpFragment({self.role!r}, {self.shape}, {self.dtype.name})"


def elements_of(layout: Layout, values: Sequence[Value]) -> Iterator[tuple[Value, Value, Value]]:
    row0, col0 = layout[0](lane_id())
    for i, value in enumerate(values):
        row, col = layout(0, i)
        yield row0 + row, col0 + col, value


class WarpProduct:
    """``a @ b`` of a warp's operands, not computed yet: ``accumulator += a @ b`` issues it."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b
