"""Tiles in shared memory: views that know their shape, dtype, swizzle, bytes and address."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, overload

from nvdsl.errors import trace_error
from nvdsl.ir import declared
from nvdsl.lang import atomics, matrices, predicated, tile_parts, vector_access
from nvdsl.lang.remote import Remote, remote
from nvdsl.layout import Operand, TileLayout
from nvdsl.mlir import ir
from nvdsl.ops.pointer import address_of
from nvdsl.ops.smem import get_dynamic_shared_memory, smem_address, smem_pointer
from nvdsl.values import bounds, scope
from nvdsl.values.dtypes import DType
from nvdsl.values.python_numbers import plain
from nvdsl.values.traced import Value
from nvdsl.values.typing import Int, Number, Pointer, Slices

if TYPE_CHECKING:
    from nvdsl.lang.accumulator import Fragment
    from nvdsl.lang.array import Array


MOST_ROWS, MOST_COLUMNS = 64, 32
"""Of a tile that `print` takes: the device's printf takes 32 values."""


class Tile:
    """A ``rows x cols`` tile in shared memory; `smem` makes one. Nothing is emitted before it is used.

    ``offset`` is its start in the block's dynamic shared memory in bytes, an int or a traced i32. ``tile[i, j]`` loads
    and ``tile[i, j] = v`` stores one element, through the swizzle. ``tile.T`` is the transposed view for wgmma. Indices
    are checked in each dimension. An index that is known while tracing raises TraceError or VerifyError; any other
    stops the kernel in the simulator and in debug mode.
    """

    __nv_number__ = "tile[row, column] loads an element: compute with elements"
    __nv_unprintable__ = f"print(tile[row, column]), or of a part of up to {MOST_ROWS} x {MOST_COLUMNS}"

    def __init__(self, layout: TileLayout, dtype: DType, offset: Int, *, transposed: bool = False) -> None:
        self.layout, self.dtype, self.offset, self.transposed = layout, dtype, offset, transposed
        self._kernel = scope.traced()

    def __eq__(self, other: object) -> bool:
        """Whether both are one object: elements are compared one by one, ``tile[i, j] == x``."""
        if isinstance(other, int | float | ir.Value):
            raise trace_error(
                f"a tile == {other!r}",
                rule="a tile lies in shared memory: its elements are compared one by one",
                fix="tile[i, j] == value",
            )
        return self is other

    __hash__ = object.__hash__

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, in elements; of the transposed view, exchanged."""
        rows, cols = self.layout.rows, self.layout.cols
        return (cols, rows) if self.transposed else (rows, cols)

    @property
    def bytes(self) -> int:
        """Bytes of data in the tile: what a TMA load of it brings."""
        return self.layout.bytes

    @property
    def swizzle(self) -> int:
        """The width of its swizzle in bytes; 0 for a dense tile."""
        return self.layout.swizzle

    @property
    def T(self) -> Tile:
        """The transposed view, as an operand of wgmma. Nothing is moved."""
        turned = copy.copy(self)
        turned.transposed = not self.transposed
        return turned

    @property
    def address(self) -> Value:
        """Byte address of the tile's start, i32 (shared::cta window)."""
        address = smem_address(self.offset)
        address.owner.attributes[declared.VIEW] = self._how()
        return address

    def pointer(self, byte: Int = 0) -> Pointer:
        """Address of byte ``byte`` of the tile, ``!llvm.ptr<3>``; 0 to the tile's last byte."""
        span = self.layout.span
        if isinstance(byte, int) and not 0 <= byte < span:
            raise trace_error(
                f"byte {byte} of a tile of {span:,} bytes",
                rule="a pointer into a tile points to one of its bytes",
                fix="tile.layout.offset(row, col) is the byte of an element",
            )
        bounds.within(f"the {span} bytes of {self._described()}", (byte,), (span,))
        pointer = smem_pointer(self.offset + byte)
        pointer.owner.attributes[declared.VIEW] = self._how()
        return pointer

    def rows(self, start: Int, count: int) -> Tile:
        """``count`` rows of the stored tile from row ``start``, which may be traced; both multiples of 8 where the tile
        has a swizzle."""
        return self._of(*tile_parts.rows(self.layout, start, count, self._described()))

    def cols(self, start: Int, count: int) -> Tile:
        """``count`` columns of the stored tile from column ``start``, which may be traced; whole panels where the tile
        has a swizzle."""
        return self._of(*tile_parts.cols(self.layout, start, count, self._described()))

    def _part(self, key: tuple[Any, ...]) -> Tile:
        """``tile[r0:r1, c0:c1]``."""
        rows, cols = tile_parts.slices(key, self.shape)
        if self.transposed:
            rows, cols = cols, rows
        found = self if rows is None else self.rows(*rows)
        return found if cols is None else found.cols(*cols)

    def _of(self, layout: TileLayout, offset: Int) -> Tile:
        """A part, so many bytes behind the tile's start."""
        part = copy.copy(self)
        part.layout, part.offset = layout, self.offset + offset
        return part

    def panel(self, number: int, shape: Sequence[int] | None = None, dtype: DType | None = None) -> Array:
        """Memref of panel ``number``: what one TMA box fills. ``shape``, ``dtype``: the box's. Raises TraceError for
        columns of a wider dense tile, whose rows do not lie one behind the other."""
        if self.layout.pitch:
            raise trace_error(
                f"a box of {self._described()}, whose rows are {self.layout.pitch} bytes apart",
                rule="a box fills its rows one behind the other (PTX ISA, cp.async.bulk.tensor)",
                fix="take whole rows, or a tile of its own",
            )
        box = list(shape) if shape is not None else [self.layout.rows, self.layout.panel_cols]
        offset = self.offset + number * self.layout.panel_stride
        return self._view(box, dtype or self.dtype, offset)

    def _view(self, shape: Sequence[int], dtype: DType, offset: Int) -> Array:
        view = get_dynamic_shared_memory(shape, dtype.ir, offset)
        view.owner.attributes[declared.VIEW] = self._how()
        return view.remember_dtype(dtype)

    def _how(self) -> ir.Attribute:
        """What the views of it note. Raises TraceError in a kernel that did not make it."""
        if self._kernel is not None and self._kernel is not scope.traced():
            raise trace_error(
                f"a tile of the kernel `{self._kernel.name}` is used outside of it",
                rule="shared memory is there for one launch of one kernel: in another one the same bytes are others",
                fix="call nv.smem in the kernel that uses it; kernels hand data on in global memory (nv.empty)",
            )
        return ir.DenseI64ArrayAttr.get([self.layout.swizzle, self.layout.panel_stride])

    def operand(self, mn_axis: int) -> Operand:
        """How wgmma walks the tile; ``mn_axis`` is the axis of ``shape`` that is M or N."""
        contiguous = 0 if self.transposed else 1
        return Operand(self.layout, "mn" if mn_axis == contiguous else "k")

    def _element(self, key: tuple[Int, Int], count: int = 1) -> Array:
        if not isinstance(key, tuple) or len(key) != 2:
            raise trace_error(
                f"a tile indexed with {key!r}" if not isinstance(key, tuple) else f"{len(key)} indices for a tile",
                rule="an element of a tile has a row and a column",
                fix="tile[row, col]; a stack of tiles is indexed first: stack[stage][row, col]",
            )
        if any(isinstance(k, slice) for k in key):
            raise trace_error(
                "assignment to a part of a tile",
                rule="a kernel's store writes one element",
                fix="nv.copy(source, tile[r0:r1, c0:c1]), or .store_vector for a few neighbouring columns",
            )
        row, col = key
        if self.transposed:
            row, col = col, row
        for value, extent in ((row, self.layout.rows), (col, self.layout.cols - count + 1)):
            if isinstance(value, int) and not 0 <= value < extent:
                raise trace_error(
                    f"tile index {key} outside of {self.shape}",
                    rule="indices are 0 to extent - 1; negative indices don't wrap in a kernel",
                    fix="check the loop's bounds" if value >= 0 else "use shape[axis] - 1 for the last row or column",
                )
        bounds.within(self._described(), (row, col), (self.layout.rows, self.layout.cols - count + 1))
        return self._view((count,), self.dtype, self.offset + self.layout.offset(row, col))

    def vector(self, key: tuple[Int, Int], count: int) -> Value:
        """``count`` neighbouring columns of a row from ``key`` (row, column) on, as one access: see `Array.vector`.

        They lie in one 16-byte unit of the swizzle, so that the column is a multiple of ``count``; of a dense tile,
        rows that are no multiple of the access apart are refused. Raises TraceError for the transposed view.
        """
        return self.elements(key, count).vector(0, count)

    def store_vector(self, value: Value, key: tuple[Int, Int]) -> None:
        """Store a vector to neighbouring columns of a row from ``key`` (row, column) on, as one access, converted to
        the tile's type. Aligned as in `vector`."""
        value = vector_access.converted(value, self.dtype)
        self.elements(key, value.shape[0]).store_vector(value, 0)

    def elements(self, key: tuple[Int, Int], count: int) -> Array:
        """``count`` neighbouring columns of a row from ``key`` on, as an array, in one access's reach: see `vector`."""
        if self.transposed:
            raise trace_error(
                "a vector access of the transposed view of a tile",
                rule="one access takes neighbouring columns of a stored row",
                fix="take the vector from the tile itself, or element by element",
            )
        count = plain(count)
        size = vector_access.size(count, self.dtype, 1)
        found = self._element(key, count)
        what = f"a vector access of {count} x {self.dtype.name} ({size} bytes)"
        row, col = (key[0], self.layout.row_stride, self.layout.rows), (key[1], self.dtype.bytes, self.layout.cols)
        vector_access.check_aligned(size, what, self.offset, (row, col))
        return found

    def at(self, rank: Int) -> Remote:
        """The tile of block ``rank`` of the cluster that corresponds to this one (distributed shared memory): loads,
        stores, vectors and atomics there."""
        return remote(self, rank, True)

    store = predicated.store

    # Atomics on one element: see `nvdsl.lang.atomics`.
    atomic_add = atomics.atomic_add
    atomic_sub = atomics.atomic_sub
    atomic_min = atomics.atomic_min
    atomic_max = atomics.atomic_max
    atomic_and = atomics.atomic_and
    atomic_or = atomics.atomic_or
    atomic_xor = atomics.atomic_xor
    atomic_exch = atomics.atomic_exch
    atomic_cas = atomics.atomic_cas
    atomic_inc = atomics.atomic_inc
    atomic_dec = atomics.atomic_dec

    # 8x8 matrices by row and column: see `nvdsl.lang.matrices`.
    ldmatrix = matrices.ldmatrix
    stmatrix = matrices.stmatrix

    def _element_place(self, key: Any, count: int = 1) -> Pointer:
        """Address of an element, or of ``count`` from it on, for what takes a pointer."""
        return address_of(self._element(key) if count == 1 else self.elements(key, count))

    @overload
    def __getitem__(self, key: tuple[Int, Int]) -> Value: ...  # type: ignore[overload-overlap]  # is one of Slices
    @overload
    def __getitem__(self, key: Slices) -> Tile: ...

    def __getitem__(self, key: Any) -> Value | Tile:
        """Load the element at (row, column), through the swizzle. ``tile[r0:r1, c0:c1]`` is a part of the tile, with
        its swizzle: see `rows` and `cols` for what has one. Starts may be traced, as in `Array`."""
        if isinstance(key, tuple) and len(key) == 2 and any(isinstance(k, slice) for k in key):
            return self._part(key)
        return self._element(key)[0]

    def __setitem__(self, key: tuple[Int, Int], value: Number) -> None:
        """Store an element at (row, column), through the swizzle, converted to the tile's type."""
        self._element(key)[0] = value

    def __matmul__(self, other: Tile) -> Product:
        """The product with another tile, to be added to an `Accumulator`: ``acc += a @ b``."""
        return Product(self, other)

    def __iter__(self) -> NoReturn:
        raise trace_error(
            "a loop over a tile",
            rule="a tile's elements are read one by one, each thread those that it needs",
            fix="for i in nv.range(rows): tile[i, col]",
        )

    def __nv_lines__(self) -> list[tuple[bool, list[Any]]] | None:
        """What `print` prints of a small tile, row by row, in each thread that executes it; None of a larger one."""
        rows, cols = self.shape
        if cols > MOST_COLUMNS or rows > MOST_ROWS:
            return None
        lines = [[x for c in range(cols) for x in (self[r, c], ", ")][:-1] for r in range(rows)]
        return [(True, [f"[{r}, 0:{cols}] [", *line, "]"]) for r, line in enumerate(lines)]

    def _described(self) -> str:
        return f"a tile of {self.layout.rows}x{self.layout.cols} {self.dtype.name}"

    def __repr__(self) -> str:
        return f"Tile({self.shape}, {self.dtype.name}, swizzle={self.swizzle})"


class Product:
    """``A @ B`` of two tiles, not computed yet: ``accumulator += A @ B`` issues it."""

    def __init__(self, a: Tile | Fragment, b: Tile) -> None:
        if not isinstance(b, Tile):
            raise trace_error(
                f"a tile @ {type(b).__name__}",
                rule="B of a wgmma is a tile in shared memory (PTX ISA, wgmma.mma_async); A may be in registers",
                fix="acc += A[slot] @ B[slot]",
            )
        self.a, self.b = a, b
