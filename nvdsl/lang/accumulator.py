"""Accumulators: the registers of a warpgroup in which wgmma sums.

An `Accumulator` is immutable: ``acc += A @ B`` makes a new one (new SSA values), so that a traced loop
carries it like any other value. wgmma is asynchronous: `wgmma_wait` before the elements are read. What wgmma
has written is read behind a compiler barrier (`ops.ptx.touch`), so that the reads stay behind the wait.

What operators on accumulators give is an accumulator again where wgmma can add to it (f32, f16 and i32), and a
`Fragment` for the other types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.lang.array import Array
from nvdsl.lang.axis import of_accumulator
from nvdsl.lang.distributed import Grid, Where, make_with
from nvdsl.lang.fragment import Fragment, by_row, not_an_operand, packed_fragment
from nvdsl.lang.fragment_vector import FragmentVector
from nvdsl.lang.matrix import Matrix, pack_with
from nvdsl.lang.packing import pack_pair, pair_vector, unpacked
from nvdsl.lang.tile import Product, Tile
from nvdsl.layout import WGMMA_K_BYTES
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import ptx, wgmma
from nvdsl.ops.warp import WARP_GROUP_SIZE
from nvdsl.values import dtypes, scope
from nvdsl.values.dtypes import DType
from nvdsl.values.extents import constant_fix
from nvdsl.values.python_numbers import plain
from nvdsl.values.results import kept
from nvdsl.values.traced import Value, const
from nvdsl.values.typing import Bool, ElementType, Number

__all__ = ["Accumulator", "Fragment", "accumulator", "pack_pair", "pair_vector"]

TYPES = ("f32", "f16", "i32")
"""What wgmma sums in (PTX ISA, wgmma.mma_async)."""


def accumulator(m: int, n: int, dtype: ElementType = dtypes.f32) -> Accumulator:
    """A zero ``m x n`` accumulator of one warpgroup (128 threads).

    ``m``: a multiple of 64; ``n``: 8..256, a multiple of 8. Each thread holds ``m * n / 128`` elements. Zeros are
    written only where something needs them (a traced loop that carries the accumulator): the first product
    added to a zero accumulator in straight-line code starts the sum instead (``scale_d = 0``).
    """
    m, n = plain(m), plain(n)
    if not (isinstance(m, int) and isinstance(n, int)) or m <= 0 or m % wgmma.M or not 8 <= n <= 256 or n % 8:
        raise trace_error(
            f"an accumulator of {m!r} x {n!r}",
            rule="one warpgroup accumulates M = 64, 128, ... by N = 8, 16, ..., 256 (PTX ISA, wgmma.mma_async)",
            fix=constant_fix("give each warpgroup 64 or 128 rows and at most 256 columns", m, n),
        )
    dtype = dtypes.element(dtype)
    if dtype.name not in TYPES:
        raise trace_error(
            f"an accumulator of {dtype.name}",
            rule="wgmma accumulates in f32, f16 or i32 (PTX ISA, wgmma.mma_async)",
            fix="accumulate in nv.f32 and convert in the epilogue",
        )
    threads = scope.current("nv.accumulator").threads
    if threads < WARP_GROUP_SIZE:
        raise trace_error(
            f"an accumulator in a block of {threads} threads",
            rule="an accumulator is spread over the 128 threads of a warpgroup (PTX ISA, wgmma)",
            fix="use a block of 128 threads or more; warps behind the last whole warpgroup can load, not multiply",
        )
    return Accumulator(m, n, dtype, None)


class Accumulator(Matrix):
    """The ``m x n`` sums of a warpgroup, in registers; `accumulator` makes one.

    There is one ``llvm.struct`` of registers for each 64 rows. `layout.wgmma_accumulator` says which
    thread holds which element.
    """

    __nv_unprintable__ = "print(acc[0:8, 0:8])"

    def __init__(
        self, m: int, n: int, dtype: DType, blocks: Sequence[ir.Value] | None, *, touched: bool = False
    ) -> None:
        super().__init__(dtype, None)
        self.m, self.n = m, n
        self._places = of_accumulator(m, n)
        self.axes = self._places.rows, self._places.cols
        self._blocks = blocks  # None: zero, and no register says so yet; or computed, and in no struct yet
        self._words: list[list[Value]] | None = None
        self._touched = touched  # arithmetic made these registers: fence them before the next wgmma

    @classmethod
    def of(
        cls, m: int, n: int, dtype: DType, grid: Grid | None, product: Any = None, words: Any = None
    ) -> Accumulator:
        """The accumulator that has these elements, computed by arithmetic."""
        new = cls(m, n, dtype, None, touched=True)
        new._grid, new._product, new._words = grid, product, words
        return new

    @property
    def blocks(self) -> list[ir.Value]:
        """``blocks[i]`` holds rows ``64*i .. 64*i+63``."""
        if self._blocks is not None:
            return list(self._blocks)
        # Not kept: the next use may be in another region of the module.
        if self._is_computed:
            return [ptx.pack(fields) for fields in (self.words() if self.dtype.name == "f16" else self._by_register())]
        fields = list(llvm.StructType(wgmma.accumulator_type(self.n, self.dtype)).body)
        zero = const(0.0 if str(fields[0]) == "f32" else 0, fields[0])
        return [ptx.touch(ptx.pack([zero] * len(fields))) for _ in range(self.m // wgmma.M)]

    @property
    def _is_computed(self) -> bool:
        """Whether arithmetic made it, and no struct has its registers."""
        return self._blocks is None and (self._product is not None or self._words is not None or self._touched)

    def _by_register(self) -> list[list[Value]]:
        """The elements in the order of the registers, a list for each 64 rows."""
        grid = self.grid()
        elements = [grid[r][c] for r, c in self._places.of_register]
        each = len(elements) // (self.m // wgmma.M)
        return [elements[i : i + each] for i in range(0, len(elements), each)]

    def _order(self) -> list[tuple[int, int]]:
        return list(self._places.of_register)

    @property
    def __nv_key__(self) -> tuple[Any, ...]:
        return self.m, self.n, self.dtype

    def __nv_values__(self) -> list[ir.Value]:
        return self.blocks

    def __nv_rebuild__(self, values: Sequence[ir.Value]) -> Accumulator:
        return Accumulator(self.m, self.n, self.dtype, values, touched=self._touched)

    def __iadd__(self, other: Product | Matrix | FragmentVector | Number) -> Accumulator:  # type: ignore[misc]
        """``acc += a @ b`` is ``acc = acc.mma(a, b)``; numbers, vectors and fragments are added element by element."""
        if isinstance(other, Tile | Array):
            raise trace_error(
                f"`accumulator += {type(other).__name__}`",
                rule="an accumulator takes the product of two tiles, and adds numbers, vectors and fragments",
                fix="acc += A[slot] @ B[slot]; acc += nv.fragment(tile) adds its elements",
            )
        return self.mma(other.a, other.b) if isinstance(other, Product) else self + other

    def undefined(self) -> Accumulator:
        """The same of registers that nothing wrote, for a loop in which the first product starts the sums: that of
        ``scale_d=False``. A product that adds to them is found by the simulator."""
        undefined = llvm.mlir_undef(wgmma.accumulator_type(self.n, self.dtype))
        return Accumulator(self.m, self.n, self.dtype, [undefined] * (self.m // wgmma.M))

    @kept("acc = acc.mma(a, b), or acc += a @ b")
    def mma(
        self, a: Tile | Matrix, b: Tile, *, scale_d: Bool = True, commit: bool = True
    ) -> Accumulator:
        """Issue ``self = (scale_d ? self : 0) + a @ b`` as one group of wgmmas; not complete before `wgmma_wait`.

        ``a``: a tile of ``m x k`` elements or a register `Fragment`; ``b``: ``k x n``. Emits ``wgmma.fence``, one wgmma
        for each 32 bytes of k and each 64 rows, and (``commit=True``) ``wgmma.commit_group``. ``scale_d``: a bool, or a
        traced condition; False starts a new sum without zeroing registers.
        """
        if isinstance(a, Matrix):
            a = a.operand()
        # Of a fragment: packed here, before the fence that orders the writes of these registers.
        of_a = None if isinstance(a, Tile) else a.registers
        k = self._check(a, b)
        steps = k * a.dtype.bytes // WGMMA_K_BYTES
        a_type, b_type = _operand_type(a.dtype), _operand_type(b.dtype)
        wgmma.check_types(a_type, b_type, self.dtype, self.n)
        if self._blocks is None and not self._is_computed and isinstance(scale_d, bool):
            blocks, scale_d = self.undefined().blocks, False
        else:
            blocks = [ptx.touch(block) for block in self.blocks] if self._touched else self.blocks
        b_operand = b.operand(mn_axis=1)
        b_start = wgmma.descriptor(b.address, b_operand)
        a_operand = a.operand(mn_axis=0) if isinstance(a, Tile) else None
        a_start: Any = wgmma.descriptor(a.address, a_operand) if isinstance(a, Tile) and a_operand else None
        wgmma.wgmma_fence()
        for step in range(steps):
            b_desc = _advance(b_start, b_operand.k_offset(step))
            for i, block in enumerate(blocks):
                if a_operand is None:
                    assert of_a is not None
                    a_part: Value | list[Value] = of_a[i][step]
                else:
                    byte = a_operand.k_offset(step) + a_operand.mn_offset(i * wgmma.M)
                    a_part = _advance(a_start, byte)
                blocks[i] = wgmma.mma_async(
                    block,
                    a_part,
                    b_desc,
                    n=self.n,
                    a_dtype=a_type,
                    b_dtype=b_type,
                    d_dtype=self.dtype,
                    a_major=a_operand.major if a_operand else "k",
                    b_major=b_operand.major,
                    scale_d=scale_d if step == 0 else True,
                )
        if commit:
            wgmma.wgmma_commit()
        return Accumulator(self.m, self.n, self.dtype, blocks)

    def _check(self, a: Tile | Fragment, b: Tile) -> int:
        (m, k), (k_b, n) = a.shape, b.shape
        if (m, n) != self.shape or k != k_b:
            raise trace_error(
                f"{m} x {k} @ {k_b} x {n} into a {self.m} x {self.n} accumulator",
                rule="shapes match as in matrix multiplication: (M, K) @ (K, N) -> (M, N)",
                fix="use tile.T for a tile that holds the transpose, tile.rows(...) for a part of it",
            )
        if k * a.dtype.bytes % WGMMA_K_BYTES:
            raise trace_error(
                f"K of {k} elements of {a.dtype.name}",
                rule="one wgmma consumes 32 bytes of K: 16 f16 or bf16, 8 f32 (as tf32), 32 fp8 or int8",
                fix=f"make K a multiple of {WGMMA_K_BYTES // a.dtype.bytes}",
            )
        for name, operand in (("A", a), ("B", b)):
            if isinstance(operand, Tile) and operand.swizzle == 0:
                raise trace_error(
                    f"{name} is a dense tile (swizzle=0)",
                    rule="wgmma reads 8-row core matrices of 16-byte rows, plain or swizzled "
                    "(PTX ISA, Matrix Descriptor)",
                    fix="allocate and load it with swizzle=128 (or 64, 32, 16)",
                )
            if isinstance(operand, Tile) and isinstance(operand.offset, int) and operand.swizzle > 16:
                every = operand.layout.alignment
                if operand.offset % every:
                    raise trace_error(
                        f"{name} begins at byte {operand.offset:,} of shared memory, {operand.offset % every} bytes "
                        f"past a multiple of {every:,}",
                        rule=f"the pattern of a {operand.swizzle}-byte swizzle repeats every {every:,} bytes, and "
                        "wgmma finds it by the address (PTX ISA, Matrix Descriptor, base offset)",
                        fix="allocate with nv.smem, or round the offset up",
                    )
        return k

    # --- reading the sums ------------------------------------------------------------------------

    def registers(self) -> list[list[Value]]:
        """This thread's elements, a list for each block of 64 rows, in the order of `layout.accumulator_element`."""
        return self._by_register()

    def _computed(self) -> Grid:
        if self._product is not None and self._blocks is None:
            return super()._computed()
        words = self._words or [ptx.unpack(ptx.touch(block)) for block in self.blocks]
        fields = [field for block in words for field in block]
        elements = [x for field in fields for x in unpacked(field, self.dtype)] if self.dtype.name == "f16" else fields
        grid: Any = [[None] * len(self._places.cols.offsets) for _ in self._places.rows.offsets]
        for (r, c), x in zip(self._places.of_register, elements, strict=True):
            grid[r][c] = x
        return grid

    def words(self) -> list[list[Value]]:
        if self._words is not None:
            return self._words
        return [
            [pack_pair(a, b, self.dtype) for a, b in zip(block[::2], block[1::2], strict=True)]
            for block in self._by_register()
        ]

    @kept("acc = acc.with_registers(...)")
    def with_registers(self, registers: Sequence[Sequence[Number]]) -> Accumulator:
        """An accumulator of this shape with other elements, in the order of `registers`."""
        elements = [self.dtype(v) for values in registers for v in values]
        grid: Any = [[None] * len(self._places.cols.offsets) for _ in self._places.rows.offsets]
        for (r, c), x in zip(self._places.of_register, elements, strict=True):
            grid[r][c] = x
        return Accumulator.of(self.m, self.n, self.dtype, grid)

    def fragment(self, dtype: DType) -> Fragment:
        """The accumulator's values as an A operand in registers (f16 or bf16), for the next wgmma.

        The same as ``acc.to(dtype)`` is to ``@``. The m64nN accumulator's registers are those of N/16 m64k16 A
        fragments, once packed in pairs (PTX ISA, register fragments of A and D).
        """
        if dtype.name not in ("f16", "bf16"):
            raise not_an_operand(self, dtype)
        converted = self.to(dtype)
        return converted.operand()

    def operand(self) -> Fragment:
        if self.dtype.name != "f16" or self.n % 16:
            raise not_an_operand(self, self.dtype)
        return packed_fragment(self.axes, self.dtype, by_row(self.words(), self._places))


def _made(where: Where, dtype: DType, grid: Grid | None, product: Any) -> Matrix:
    """What an operator gives: an accumulator where wgmma can add to it, a fragment elsewhere."""
    if _is_accumulator(where, dtype):
        rows, cols = where.axes
        assert rows is not None and cols is not None
        return Accumulator.of(rows.extent, cols.extent, dtype, grid, product)
    return Fragment.of(where.axes, dtype, grid, product)


def _packed(where: Where, dtype: DType, words: list[list[Value]]) -> Matrix:
    """The same, of 16-bit elements in pairs, a list for each row of the thread."""
    new = packed_fragment(where.axes, dtype, words)
    if _is_accumulator(where, dtype):
        return Accumulator.of(*new.shape, dtype, None, words=new.words())
    return new


def _is_accumulator(where: Where, dtype: DType) -> bool:
    rows, cols = where.axes
    assert rows is not None and cols is not None
    m, n = rows.extent, cols.extent
    if dtype.name not in TYPES or m % wgmma.M or n % 8 or not 8 <= n <= 256:
        return False
    places = of_accumulator(m, n)
    return (places.rows, places.cols) == where.axes


make_with(True, _made)
pack_with(_packed)


def _operand_type(dtype: DType) -> DType:
    """wgmma reads f32 tiles as tf32."""
    return dtypes.tf32 if dtype.name == "f32" else dtype


def _advance(descriptor: Value, byte: int) -> Value:
    """A descriptor of the same operand ``byte`` bytes further (its start address field counts 16 bytes)."""
    return descriptor if byte == 0 else descriptor + (byte >> 4)
