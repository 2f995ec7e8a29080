"""Sums of mma.sync in the registers of one warp.

``acc += a @ b`` multiplies at once, and its sums can be read in the next line: nothing is asynchronous here. A
`WarpAccumulator` is immutable, as an `Accumulator` of a warpgroup is, so that loops carry it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.lang import register_move
from nvdsl.lang.array import Array
from nvdsl.lang.axis import places
from nvdsl.lang.distributed import Grid, Where, make_with
from nvdsl.lang.fragment import Fragment
from nvdsl.lang.matrix import Matrix, pack_with
from nvdsl.lang.packing import as_elements, converted, words_of
from nvdsl.lang.part import part
from nvdsl.lang.register_move import Move
from nvdsl.lang.tile import Product, Tile
from nvdsl.lang.warp_fragment import WarpFragment, WarpProduct, check_warps, load_a, load_b
from nvdsl.layout import Layout, mma_c
from nvdsl.ops import mma
from nvdsl.ops.warp import WARP_SIZE
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.python_numbers import plain
from nvdsl.values.results import kept
from nvdsl.values.traced import Value, const
from nvdsl.values.typing import Coords, ElementType, Number

_SUMS = ("f32", "f16", "i32", "f64")


def warp_accumulator(m: int, n: int, dtype: ElementType = dtypes.f32) -> WarpAccumulator:
    """A zero ``m x n`` accumulator of one warp, for mma.sync. Each lane holds ``m * n / 32`` sums.

    ``m``: a multiple of 16 (8 for f64, and for i32 of 8-bit integers); ``n``: a multiple of 8; ``dtype``: f32, f16, i32
    or f64. 64 x 64 f32 take 128 registers of a lane.
    """
    m, n, dtype = plain(m), plain(n), dtypes.element(dtype)
    if dtype.name not in _SUMS:
        raise trace_error(
            f"a warp's accumulator of {dtype.name}",
            rule=f"mma.sync accumulates in {', '.join(_SUMS)} (PTX ISA, mma)",
            fix="accumulate in nv.f32 and convert what is stored",
        )
    least = 8 if dtype.name in ("f64", "i32") else 16
    if m < 1 or n < 1 or m % 16 and m != least or n % mma.N:
        raise trace_error(
            f"a warp's accumulator of {m} x {n} {dtype.name}",
            rule=f"mma.sync has 16 rows{' or 8' * (least == 8)} and 8 columns (PTX ISA, mma): M is a multiple of 16"
            f"{', or 8' * (least == 8)}, N of 8",
            fix="nv.warp_accumulator(16, 8)",
        )
    check_warps("nv.warp_accumulator")
    return WarpAccumulator(m, n, dtype, None)


class WarpAccumulator(Matrix):
    """The ``m x n`` sums of one warp, in registers; `warp_accumulator` makes one. `layout` says where each lies.

    Operators on it give such matrices of any type. mma.sync adds to those of f32, f16, i32 and f64.
    """

    def __init__(self, m: int, n: int, dtype: DType, registers: Sequence[Value] | None) -> None:
        super().__init__(dtype, None)
        self.m, self.n = m, n
        self._places = places(mma_c(m, n), (m, n))
        self.axes = self._places.rows, self._places.cols
        self._registers = registers  # 16 bits: i32 words of two; None: computed, or zeros that nothing says yet
        self._is_computed = False

    @classmethod
    def of(cls, m: int, n: int, dtype: DType, grid: Grid | None, product: Any = None) -> WarpAccumulator:
        """The matrix that has these elements, computed by arithmetic."""
        new = cls(m, n, dtype, None)
        new._grid, new._product, new._is_computed = grid, product, True
        return new

    @property
    def layout(self) -> Layout:
        """(lane, value) to (row, column)."""
        return mma_c(self.m, self.n)

    def _computed(self) -> Grid:
        if self._registers is None and self._product is not None:
            return super()._computed()
        elements = as_elements(self._words(), self.dtype) if self._in_words else self._words()
        grid: Any = [[None] * len(self._places.cols.offsets) for _ in self._places.rows.offsets]
        for (r, c), x in zip(self._places.of_register, elements, strict=True):
            grid[r][c] = x
        return grid

    def _order(self) -> list[tuple[int, int]]:
        return list(self._places.of_register)

    @property
    def _in_words(self) -> bool:
        return self.dtype.bits == 16

    def _words(self) -> list[Value]:
        """The registers of mma.sync: elements, or i32 words of two of 16 bits."""
        if self._registers is not None:
            return list(self._registers)
        if self._is_computed:
            elements = self.registers()
            return words_of(elements, self.dtype) if self._in_words else elements
        kind = dtypes.i32 if self._in_words else self.dtype
        count = self.m * self.n // WARP_SIZE // (2 if self._in_words else 1)
        return [const(0.0 if kind.is_float else 0, kind)] * count

    @property
    def __nv_key__(self) -> tuple[Any, ...]:
        return self.m, self.n, self.dtype

    def __nv_values__(self) -> list[Value]:
        return self._words()

    def __nv_rebuild__(self, values: Sequence[Value]) -> WarpAccumulator:
        return WarpAccumulator(self.m, self.n, self.dtype, values)

    def __iadd__(self, other: Any) -> Any:
        """``acc += a @ b`` is ``acc = acc.mma(a, b)``; numbers, vectors and matrices are added element by element."""
        if isinstance(other, Tile | Array):
            raise trace_error(
                f"`accumulator += {type(other).__name__}`",
                rule="a warp's accumulator takes the product of two tiles, or of fragments, and adds numbers",
                fix="acc += a @ b",
            )
        return self.mma(other.a, other.b) if isinstance(other, WarpProduct | Product) else self + other  # type: ignore[arg-type]

    def __matmul__(self, other: WarpFragment | Tile) -> WarpProduct:  # type: ignore[override]
        """The product of these elements as an A operand, to be added: ``o += p.to(nv.f16) @ b``."""
        return WarpProduct(self.fragment(self.dtype), other)

    @kept("acc = acc.mma(a, b), or acc += a @ b")
    def mma(self, a: WarpFragment | WarpAccumulator | Tile, b: WarpFragment | Tile) -> WarpAccumulator:
        """``self + a @ b``, by one mma.sync for each 16 rows, 8 columns and step of K. All lanes of the warp take part.

        ``a``: ``m x k``, ``b``: ``k x n``; fragments, or tiles in shared memory, which `load_a` and `load_b` read.
        Steps of K are the longest that the types have. Raises TraceError where shapes or types don't fit.
        """
        if isinstance(a, WarpAccumulator):
            a = a.fragment(a.dtype)
        a, b = load_a(a) if isinstance(a, Tile) else a, load_b(b) if isinstance(b, Tile) else b
        m, k = self._check(a, b)
        words = self._words()
        per_tile = mma.registers(m, k, a.dtype, self.dtype)[2]
        for at in range(0, a.shape[1], k):
            tiles = [(i, j) for i in range(self.m // m) for j in range(self.n // mma.N)]
            for number, (i, j) in enumerate(tiles):
                place = slice(number * per_tile, (number + 1) * per_tile)
                words[place] = mma.mma_sync(
                    a.step(i, at, k), b.step(j, at, k), words[place], k=k, m=m,
                    a_dtype=a.dtype, b_dtype=b.dtype, d_dtype=self.dtype,
                )  # fmt: skip
        return WarpAccumulator(self.m, self.n, self.dtype, words)

    def _check(self, a: Any, b: Any) -> tuple[int, int]:
        """M and K of the instruction."""
        for name, role, x in (("A", "a", a), ("B", "b", b)):
            if not isinstance(x, WarpFragment) or x.role != role:
                raise trace_error(
                    f"{x!r} as {name} of a warp's product",
                    rule="A comes from nv.load_a, B from nv.load_b, or either is a tile in shared memory",
                    fix=f"nv.load_{role}(tile, (row, col), shape)",
                )
        (m, k), (k_b, n) = a.shape, b.shape
        if (m, n) != self.shape or k != k_b:
            raise trace_error(
                f"{m} x {k} @ {k_b} x {n} into a warp's {self.m} x {self.n} accumulator",
                rule="shapes match as in matrix multiplication: (M, K) @ (K, N) -> (M, N)",
                fix="tile.T is the transposed view of a tile; nv.load_a and nv.load_b take a part of one",
            )
        rows = min(m, 16)
        shapes = mma.TYPES.get((a.dtype.name, b.dtype.name), ((), ()))[1]
        steps = [step for of, step in shapes if of == rows and k % step == 0]
        step = max(steps, default=k)
        mma.check_types(a.dtype, b.dtype, self.dtype, rows, step)
        return rows, step

    # --- reading the sums

    def registers(self) -> list[Value]:
        """This lane's elements, in the order of `layout`."""
        grid = self.grid()
        return [grid[r][c] for r, c in self._places.of_register]

    @kept("acc = acc.with_registers(...)")
    def with_registers(self, registers: Sequence[Number]) -> WarpAccumulator:
        """An accumulator of this shape with other elements, in the order of `registers`."""
        elements = [self.dtype(x) for x in registers]
        words = words_of(elements, self.dtype) if self._in_words else elements
        return WarpAccumulator(self.m, self.n, self.dtype, words)

    def fragment(self, dtype: DType) -> WarpFragment:
        """The sums as A of the next product, f16 or bf16: no lane needs another's elements.

        The registers of two 16 x 8 tiles, packed in pairs, are those of a 16 x 16 A (PTX ISA, "Matrix Fragments for
        mma.m16n8k16"). Raises TraceError for other types and for an odd number of such tiles in a row.
        """
        if dtype.name not in ("f16", "bf16") or self.n % 16 or self.m % 16:
            raise trace_error(
                f"a warp's {self.m} x {self.n} accumulator as a fragment of {dtype.name}",
                rule="its registers are those of an A operand for f16 and bf16, 16 columns a step (PTX ISA, mma)",
                fix="convert to nv.f16 or nv.bf16, with a multiple of 16 columns",
            )
        words = self._words() if dtype is self.dtype else words_of(converted(self.registers(), dtype), dtype)
        return WarpFragment("a", self.shape, dtype, words)

    def store(
        self, out: Tile | Array, start: Coords | None = None, *, clip: bool = False, using: str | None = None
    ) -> None:
        """Write the sums to a tile in shared memory or a 2-D array, at row, column ``start``, converted to its type.

        16-bit elements go to a tile by stmatrix (transposed for ``tile.T``), others by vectors of two neighbours or one
        by one. ``using``: "stmatrix", "vector" or "scalar". ``clip``: leave out what lies beyond an array's
        edges. Raises TraceError where the matrix does not lie within ``out``.
        """
        if clip:
            super().store(out, start, clip=True)
            return
        rectangle = part(out, start, self.shape if start is not None or isinstance(out, Array) else None, "store")
        if rectangle.shape != self.shape:
            raise trace_error(
                f"store of a warp's {self.m} x {self.n} accumulator to {rectangle}",
                rule="the whole accumulator is written, to memory of its shape",
                fix="give the place: acc.store(tile, (row, col))",
            )
        register_move.store(Move(rectangle, self.layout, self.registers()), using)


def _made(where: Where, dtype: DType, grid: Grid | None, product: Any) -> Matrix:
    """What an operator on a warp's matrices gives: of every part of one, too."""
    if _is_whole(where):
        rows, cols = where.axes
        assert rows is not None and cols is not None
        return WarpAccumulator.of(rows.extent, cols.extent, dtype, grid, product)
    return Fragment.of(where.axes, dtype, grid, product)


def _packed(where: Where, dtype: DType, words: list[list[Value]]) -> Matrix:
    return _made(where, dtype, [[x for word in line for x in as_elements([word], dtype)] for line in words], None)


def _is_whole(where: Where) -> bool:
    """Whether these are the axes of mma.sync's sums."""
    rows, cols = where.axes
    assert rows is not None and cols is not None
    m, n = rows.extent, cols.extent
    if m % 16 and m != 8 or n % mma.N:
        return False
    found = places(mma_c(m, n), (m, n))
    return (found.rows, found.cols) == where.axes


make_with(True, _made, WARP_SIZE)
pack_with(_packed, WARP_SIZE)
