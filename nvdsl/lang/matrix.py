"""What has rows and columns in registers: the operations that accumulators and fragments share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from nvdsl.errors import trace_error
from nvdsl.lang import fragment_memory as memory
from nvdsl.lang import reduction
from nvdsl.lang.array import Array
from nvdsl.lang.axis import Axis
from nvdsl.lang.distributed import Distributed, Makers, Where, made, one, subscript
from nvdsl.lang.excerpt import Excerpt
from nvdsl.lang.fragment_vector import Coordinates, FragmentVector
from nvdsl.lang.packing import pair_vector
from nvdsl.lang.tile import Product, Tile
from nvdsl.mlir.dialects import llvm
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.results import kept
from nvdsl.values.traced import Value
from nvdsl.values.typing import Coords, ElementType, Int

if TYPE_CHECKING:
    from nvdsl.lang.fragment import Fragment

_WORD = dtypes.i32


class Matrix(Distributed):
    """Rows and columns that are spread over the registers of a warpgroup (or of a warp).

    Operators and the functions of numbers (`nvdsl.math`, `nv.where`, `nv.maximum` ...) work element by element; vectors
    of `row_vector`, `column_vector` and of the reductions are repeated along the other axis. A product that something
    is added to is one fused multiply-add. Each thread computes what its registers hold.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, in elements."""
        rows, cols = self._both()
        return (rows.extent, cols.extent)

    def _both(self) -> tuple[Axis, Axis]:
        rows, cols = self.axes
        assert rows is not None and cols is not None
        return rows, cols

    @property
    def rows(self) -> Coordinates:
        """The row of each element, counted from the first one: i32, of shape ``(m, 1)``."""
        rows, _ = self._both()
        return Coordinates(rows, 0, rows.first())

    @property
    def cols(self) -> Coordinates:
        """The column of each element, counted from the first one: i32, of shape ``(1, n)``."""
        _, cols = self._both()
        return Coordinates(cols, 1, cols.first())

    def elements(self) -> Iterator[tuple[Value, Value, Value]]:
        """Yield (row, column, value) of this thread's elements. Row and column are i32, within the tile."""
        rows, cols = self._both()
        row0, col0 = rows.first(), cols.first()
        grid = self.grid()
        for r, c in self._order():
            yield row0 + rows.offsets[r], col0 + cols.offsets[c], grid[r][c]

    def _order(self) -> list[tuple[int, int]]:
        """Positions in the grid in the order of the registers."""
        rows, cols = self._both()
        return [(r, c) for r in range(len(rows.offsets)) for c in range(len(cols.offsets))]

    @kept("y = x.to(dtype)")
    def to(self, dtype: ElementType) -> Any:
        """The elements converted to ``dtype``, as ``dtype(x)`` does; f32 to f16 and bf16 two at a time.

        ``p.to(nv.f16) @ V`` is the product of an A operand in registers: an accumulator's registers are those of an A
        operand (PTX ISA, wgmma.mma_async, register fragments). Nothing is moved.
        """
        dtype = dtypes.element(dtype)
        rows, cols = self._both()
        where = Where((rows, cols), False)
        grid = self.grid()
        if self.dtype is dtypes.f32 and dtype in (dtypes.f16, dtypes.bf16) and len(cols.offsets) % 2 == 0:
            words = [
                [llvm.bitcast(_WORD.ir, pair_vector(a, b, dtype)) for a, b in zip(line[::2], line[1::2], strict=True)]
                for line in grid
            ]
            return packed(where, dtype, words)
        return made(where, dtype, [[dtype(x) for x in line] for line in grid])

    # --- reductions ------------------------------------------------------------------------------

    def sum(
        self, axis: int, *, partial: bool = False, scratch: Array | None = None, barrier: Int = 1
    ) -> FragmentVector:
        """The sums along ``axis``: 1 for a value of each row, 0 for one of each column. How many are true, of bools.

        Each of the threads that hold a row has its sum: four threads, two shuffles. A column is spread over the four
        warps of a warpgroup: axis 0 takes ``scratch``, a 1-D array in shared memory of 4 elements for each column, and
        the named barrier ``barrier``, at which the warpgroup meets twice. 16-bit elements are summed in f32 and rounded
        once. ``partial``: leave to each thread the sum of its own elements. Such vectors can be added and scaled, and
        `FragmentVector.total` does the shuffles once, at the end.
        """
        return self._reduced("sum", axis, partial, scratch, barrier)

    def max(self, axis: int, *, scratch: Array | None = None, barrier: Int = 1) -> FragmentVector:
        """The greatest along ``axis``; beside a NaN the number. Threads and ``scratch``: see `sum`."""
        return self._reduced("max", axis, False, scratch, barrier)

    def min(self, axis: int, *, scratch: Array | None = None, barrier: Int = 1) -> FragmentVector:
        """The least along ``axis``; beside a NaN the number. Threads and ``scratch``: see `sum`."""
        return self._reduced("min", axis, False, scratch, barrier)

    def any(self, axis: int, *, scratch: Array | None = None, barrier: Int = 1) -> FragmentVector:
        """Whether a bool is true along ``axis``. Threads and ``scratch``: see `sum` (of i32)."""
        return self._reduced("any", axis, False, scratch, barrier)

    def all(self, axis: int, *, scratch: Array | None = None, barrier: Int = 1) -> FragmentVector:
        """Whether all bools are true along ``axis``. Threads and ``scratch``: see `sum` (of i32)."""
        return self._reduced("all", axis, False, scratch, barrier)

    def _reduced(self, op: str, axis: int, partial: bool, scratch: Array | None, barrier: Int) -> FragmentVector:
        reduction.check(op, axis, self.dtype, self.shape)
        number = 1 - axis
        kept = self._both()[number]
        t = reduction.given_in(op, self.dtype)
        values = reduction.along(op, self.grid(), axis, self.dtype, kept, partial, scratch, barrier)
        values = [x if x.dtype is t or partial else t(x) for x in values]
        grid = [[x] for x in values] if number == 0 else [values]
        return FragmentVector(kept, number, values[0].dtype, grid, partial="sum" if partial else "")

    # --- parts -----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """A part: ``acc[:, 0:64]``, ``acc[:, 0::2]``, of plain integers. Nothing is moved.

        A part that each thread has the same registers of (whole groups of 8 columns or 64 rows, or every second column)
        is a fragment. Any other can only be printed: ``print(acc[0:8, 0:8])``.
        """
        rows, cols = self._both()
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != 2 or not all(map(_is_plain, parts)):
            raise trace_error(
                f"{subscript(key)} of {one(self)}",
                rule="a part of a fragment is a slice of rows and one of columns, of plain integers",
                fix="acc[:, 0:64]; `for row, col, x in acc.elements():` reads each thread's elements",
            )
        for part, extent in zip(parts, self.shape, strict=True):
            if not len(range(*part.indices(extent))) or part.stop is not None and part.stop > extent:
                raise trace_error(
                    f"[{part.start}:{part.stop}] of an axis of {extent}",
                    rule="a part of a fragment lies within it, and is not empty",
                    fix="check the slice",
                )
        of, beside = rows.taken(parts[0]), cols.taken(parts[1])
        if of is None or beside is None:
            return Excerpt(self, *(range(*part.indices(n)) for part, n in zip(parts, self.shape, strict=True)))
        (of_rows, rs), (of_cols, cs) = of, beside
        grid = self.grid()
        return made(Where((of_rows, of_cols), False), self.dtype, [[grid[r][c] for c in cs] for r in rs])

    # --- as an operand, and to memory ------------------------------------------------------------

    def __matmul__(self, other: Tile) -> Product:
        """The product with a tile in shared memory, to be added to an accumulator: ``acc += p.to(nv.f16) @ b``."""
        return Product(self.operand(), other)

    def operand(self) -> Fragment:
        """The same registers as an A operand. Raises TraceError where they are not those of one."""
        raise NotImplementedError

    def store(self, out: Array | Tile, start: Coords | None = None, *, clip: bool = False) -> None:
        """Write the elements to a tile in shared memory, or to an array from ``start`` on, converted to its type.

        A tile has the fragment's shape; 16-bit elements go out by stmatrix, whatever the tile's swizzle. An array's
        last two axes take the rows and columns; ``start`` has an index for each axis. Two neighbouring elements go in
        one access where the array's rows are contiguous and even; a traced first column must then be even, and the
        array's first element aligned to two. ``clip``: leave out what lies beyond the array's edges. Waits for nothing:
        `wgmma_wait` comes before, and who reads the tile, `fence_proxy_async` and a barrier behind.
        """
        rows, cols = self._both()
        if isinstance(out, Tile):
            if start is not None:
                raise trace_error(
                    f"store(tile, {start!r})",
                    rule="a tile takes a fragment of its own shape",
                    fix="store into a part: acc.store(tile.rows(64, 64))",
                )
            memory.check_tile(out, self.shape, "store")
            self._to_tile(out, rows, cols)
            return
        if start is None:
            raise trace_error(
                f"store of {one(self)} without a place",
                rule="an array is written from a row and a column on",
                fix="acc.store(out, (row, col))",
            )
        memory.store(self.grid(), rows, cols, out, start, clip)

    def _to_tile(self, tile: Tile, rows: Axis, cols: Axis) -> None:
        if tile.dtype.bits == 16 and tile.dtype is not self.dtype:
            self.to(tile.dtype)._to_tile(tile, rows, cols)
        elif memory.as_matrices(tile, cols, rows, self.dtype):
            memory.store_words(self.words(), tile)
        else:
            memory.store_pairs(self.grid(), rows, cols, tile)

    def words(self) -> list[list[Value]]:
        """16-bit elements packed in pairs: a list for each 64 rows, in the order of an accumulator's registers."""
        raise NotImplementedError

    def __nv_lines__(self) -> list[tuple[Value, list[Any]]] | None:
        """What `print` prints, row by row; None where rows are too long."""
        return Excerpt(self, *map(range, self.shape)).__nv_lines__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape}, {self.dtype.name})"


_packers = Makers()


def pack_with(packer: Callable[[Where, DType, list[list[Value]]], Any], threads: int | None = None) -> None:
    """Let ``packer`` make what holds 16-bit elements in pairs: the module of accumulators, built on this, has it.
    ``threads``: see `make_with`."""
    _packers.add(True, packer, threads)


def packed(where: Where, dtype: DType, by_row: list[list[Value]]) -> Any:
    """What has these 16-bit elements, two in a register: a list of registers for each row of the thread."""
    return _packers.of(where)(where, dtype, by_row)


def _is_plain(part: Any) -> bool:
    return isinstance(part, slice) and all(
        x is None or isinstance(x, int) and x >= 0 for x in (part.start, part.stop, part.step)
    )

