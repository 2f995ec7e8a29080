"""Fragments: rows and columns of any type in the registers of a warpgroup, and A operands of wgmma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.errors import TraceError, trace_error
from nvdsl.lang import fragment_memory as memory
from nvdsl.lang.array import Array
from nvdsl.lang.axis import Places, column_axis, of_accumulator, of_operand, row_axis
from nvdsl.lang.distributed import Axes, Grid, Where, made
from nvdsl.lang.matrix import Matrix, packed
from nvdsl.lang.packing import pack_pair, unpacked
from nvdsl.lang.tile import Tile
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value
from nvdsl.values.typing import Coords, Number

REGISTERS_OF_A = 4
"""Registers of A of one wgmma: 64 rows of 32 bytes."""


class Fragment(Matrix):
    """``m x k`` elements in registers: what operators on accumulators give, or an A operand.

    ``Fragment(m, k, dtype, registers)`` is an A operand: ``registers[block][step]`` are the four i32 values of a block
    of 64 rows and a step of 32 bytes along K, in the order of `layout.wgmma_a`. `fragment` loads one from memory.
    """

    __nv_unprintable__ = "print(x[0:8, 0:8])"

    _words: list[list[Value]] | None

    def __init__(self, m: int, k: int, dtype: DType, registers: Sequence[Sequence[Sequence[Value]]]) -> None:
        where = of_operand(m, k, dtype.bytes)
        self._set((where.rows, where.cols), dtype, None, None)
        self._words = [[word for step in block for word in step] for block in registers]

    @classmethod
    def of(cls, axes: Axes, dtype: DType, grid: Grid | None, product: Any = None) -> Fragment:
        """The fragment that has these elements, or this product's."""
        made = cls.__new__(cls)
        made._set(axes, dtype, grid, product)
        return made

    def _set(self, axes: Axes, dtype: DType, grid: Grid | None, product: Any) -> None:
        super().__init__(dtype, grid, product)
        self.axes, self._words = axes, None

    @property
    def m(self) -> int:
        """Rows."""
        return self.shape[0]

    @property
    def k(self) -> int:
        """Columns: of an A operand, K."""
        return self.shape[1]

    @property
    def registers(self) -> list[list[list[Value]]]:
        """The i32 registers of the A operand, by block of 64 rows and step of 32 bytes along K."""
        words = self.operand().words()
        return [
            [block[i : i + REGISTERS_OF_A] for i in range(0, len(block), REGISTERS_OF_A)] for block in words
        ]

    def _places(self) -> Places | None:
        """The places of its packed registers, where it can have them; None where it can't."""
        m, k = self.shape
        bits = self.dtype.bits
        if bits not in (8, 16, 32) or m % 64 or k * bits % 256 and (bits != 16 or k % 8):
            return None
        if bits == 16 and k <= 256:
            places = of_accumulator(m, k)
        elif k * bits % 256 == 0:
            places = of_operand(m, k, bits // 8)
        else:
            return None
        return places if (places.rows, places.cols) == self.axes else None

    def _computed(self) -> Grid:
        if self._words is None:
            return super()._computed()
        places = self._places()
        assert places is not None
        rows, cols = self._both()
        elements = [x for block in self._words for word in block for x in unpacked(word, self.dtype)]
        grid: Any = [[None] * len(cols.offsets) for _ in rows.offsets]
        for (r, c), x in zip(places.of_register, elements, strict=True):
            grid[r][c] = x
        return grid

    def words(self) -> list[list[Value]]:
        if self._words is not None:
            return self._words
        places = self._places()
        assert places is not None and self.dtype.bits == 16
        grid = self.grid()
        elements = [grid[r][c] for r, c in places.of_register]
        words = [pack_pair(a, b, self.dtype) for a, b in zip(elements[::2], elements[1::2], strict=True)]
        each = len(words) // (self.m // 64)
        return [words[i : i + each] for i in range(0, len(words), each)]

    def operand(self) -> Fragment:
        is_packed = self._words is not None and self.shape[1] * self.dtype.bytes % 32 == 0
        if is_packed or self.dtype.name in ("f16", "bf16") and self.k % 16 == 0 and self._places() is not None:
            return self
        raise not_an_operand(self, self.dtype)

    @property
    def __nv_key__(self) -> tuple[Any, ...]:
        return self.axes, self.dtype

    def __nv_values__(self) -> list[Value]:
        if self._words is not None or self.dtype.bits == 16 and self._places() is not None:
            return [word for block in self.words() for word in block]
        return [x for line in self.grid() for x in line]

    def __nv_rebuild__(self, values: Sequence[Value]) -> Fragment:
        each = iter(values)
        if self._words is None and not (self.dtype.bits == 16 and self._places() is not None):
            return Fragment.of(self.axes, self.dtype, [[next(each) for _ in line] for line in self.grid()])
        new = Fragment.of(self.axes, self.dtype, None)
        new._words = [[next(each) for _ in block] for block in self.words()]
        return new


def operand_of(words: Sequence[Value], dtype: DType) -> Fragment:
    """The A operand of 64 rows that these i32 registers of a thread are: four for each 32 bytes of a row, in the order
    of PTX (PTX ISA, wgmma.mma_async, register fragments). It has ``4 * len(words)`` columns of 16-bit elements."""
    places = of_accumulator(64, len(words) * 4)
    new = Fragment.of((places.rows, places.cols), dtype, None)
    new._words = [list(words)]
    return new


def not_an_operand(x: Matrix, dtype: DType) -> TraceError:
    """The error for a fragment whose registers are not those of an A operand."""
    m, n = x.shape
    return trace_error(
        f"a {m} x {n} accumulator as a fragment of {dtype.name}",
        rule="an accumulator's registers are those of an A operand for f16 and bf16, 16 columns a step "
        "(PTX ISA, wgmma.mma_async, register fragments)",
        fix="convert to nv.f16 or nv.bf16, with a multiple of 16 columns: acc += p.to(nv.f16) @ b",
    )


def fragment(
    x: Array | Tile,
    start: Coords | None = None,
    shape: tuple[int, int] | None = None,
    *,
    clip: bool = False,
    other: Number = 0,
) -> Any:
    """Load ``m x n`` elements of memory, as an accumulator of that shape holds them: a residual for an epilogue.

    ``x``: a tile in shared memory (16-bit elements by ldmatrix), or an array in global memory, of which ``shape``
    elements from ``start`` on are read, an index for each axis. ``clip``: elements beyond the array's edges are
    ``other``. Without it two neighbours are read together where rows are contiguous and even; a traced first column
    must then be even, and the array's first element aligned to two. Raises TraceError where the array is too small.
    """
    if isinstance(x, Tile):
        if start is not None or shape is not None:
            raise trace_error(
                "nv.fragment(tile, start, shape)",
                rule="a tile gives a fragment of its own shape",
                fix="nv.fragment(tile.rows(64, 64))",
            )
        rows, cols = row_axis(x.shape[0]), column_axis(x.shape[1])
        if memory.as_matrices(x, cols, rows, x.dtype):
            words = by_row(memory.load_words(x), of_accumulator(*x.shape))
            return packed(Where((rows, cols), False), x.dtype, words)
        return made(Where((rows, cols), False), x.dtype, memory.load_elements(rows, cols, x))
    if start is None or shape is None:
        raise trace_error(
            "nv.fragment(array) without a place",
            rule="a part of an array is read, from a row and a column on",
            fix="nv.fragment(x, (row, col), acc.shape)",
        )
    rows, cols = row_axis(shape[0]), column_axis(shape[1])
    return made(Where((rows, cols), False), x.dtype, memory.load(rows, cols, x, start, clip, other))


def by_row(blocks: Sequence[Sequence[Value]], places: Places) -> list[list[Value]]:
    """Packed registers as a list for each row of the thread."""
    words = [word for block in blocks for word in block]
    found: list[list[Value]] = [[] for _ in places.rows.offsets]
    for (row, _), word in zip(places.of_register[::2], words, strict=True):
        found[row].append(word)
    return found


def packed_fragment(axes: Axes, dtype: DType, by_row: list[list[Value]]) -> Fragment:
    """A fragment of 16-bit elements, of which two neighbours in a row of the thread are a register."""
    new = Fragment.of(axes, dtype, None)
    places = new._places()
    if places is None:
        return Fragment.of(axes, dtype, [[x for word in line for x in unpacked(word, dtype)] for line in by_row])
    words = [by_row[r][c // 2] for r, c in places.of_register[::2]]
    each = len(words) // (new.m // 64)
    new._words = [words[i : i + each] for i in range(0, len(words), each)]
    return new
