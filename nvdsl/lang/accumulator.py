"""Accumulators: the registers of a warpgroup in which wgmma sums.

An `Accumulator` is immutable: ``acc += A @ B`` makes a new one (new SSA values), so that a traced loop
carries it like any other value. wgmma is asynchronous: `wgmma_wait` before the elements are read. Every
way of reading them puts a compiler barrier (`ops.ptx.touch`) first, so that the reads stay behind the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nvdsl.errors import TraceError, trace_error
from nvdsl.lang.array import Array
from nvdsl.lang.tile import Product, Tile
from nvdsl.layout import WGMMA_K_BYTES, accumulator_element
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, nvvm, vector
from nvdsl.ops import ptx, wgmma
from nvdsl.ops.pointer import index
from nvdsl.ops.warp import WARP_GROUP_SIZE, warpgroup_thread
from nvdsl.values import dtypes, scope
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, const
from nvdsl.values.typing import Bool, Coords, ElementType, Number


def accumulator(m: int, n: int, dtype: ElementType = dtypes.f32) -> Accumulator:
    """A zero ``m x n`` accumulator of one warpgroup (128 threads).

    ``m``: a multiple of 64; ``n``: 8..256, a multiple of 8. Each thread holds ``m * n / 128`` elements. Zeros are
    written only where something needs them (a traced loop that carries the accumulator): the first product
    added to a zero accumulator in straight-line code starts the sum instead (``scale_d = 0``).
    """
    if m <= 0 or m % wgmma.M or not 8 <= n <= 256 or n % 8:
        raise trace_error(
            f"an accumulator of {m} x {n}",
            rule="one warpgroup accumulates M = 64, 128, ... by N = 8, 16, ..., 256 (PTX ISA, wgmma.mma_async)",
            fix="give each warpgroup 64 or 128 rows and at most 256 columns",
        )
    dtype = dtypes.element(dtype)
    if dtype.name not in ("f32", "f16", "i32"):
        raise trace_error(
            f"an accumulator of {dtype.name}",
            rule="wgmma accumulates in f32, f16 or i32 (PTX ISA, wgmma.mma_async)",
            fix="accumulate in nv.f32 and convert in the epilogue",
        )
    threads = scope.current("nv.accumulator").threads
    if threads % WARP_GROUP_SIZE:
        raise trace_error(
            f"an accumulator in a block of {threads} threads",
            rule="an accumulator is spread over the 128 threads of a warpgroup (PTX ISA, wgmma)",
            fix="use a block of 128, 256, 384 ... threads",
        )
    return Accumulator(m, n, dtype, None)


class Accumulator:
    """The ``m x n`` sums of a warpgroup, in registers; `accumulator` makes one.

    There is one ``llvm.struct`` of registers for each 64 rows. `layout.wgmma_accumulator` says which
    thread holds which element.
    """

    __nv_unprintable__ = "for row, column, x in acc.elements(): print(row, column, x)"

    def __init__(
        self, m: int, n: int, dtype: DType, blocks: Sequence[ir.Value] | None, *, touched: bool = False
    ) -> None:
        self.m, self.n, self.dtype = m, n, dtype
        self._blocks = blocks  # None: zero, and no register says so yet
        self._touched = touched  # arithmetic made these registers: fence them before the next wgmma

    @property
    def blocks(self) -> list[ir.Value]:
        """``blocks[i]`` holds rows ``64*i .. 64*i+63``."""
        if self._blocks is not None:
            return list(self._blocks)
        # Not kept: the next use may be in another region of the module.
        fields = list(llvm.StructType(wgmma.accumulator_type(self.n, self.dtype)).body)
        zero = const(0.0 if str(fields[0]) == "f32" else 0, fields[0])
        return [ptx.touch(ptx.pack([zero] * len(fields))) for _ in range(self.m // wgmma.M)]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, in elements."""
        return (self.m, self.n)

    def __bool__(self) -> bool:
        raise _no_number("the truth value of an accumulator")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Accumulator):
            raise _no_number(f"an accumulator == {other!r}")
        return self is other

    __hash__ = object.__hash__

    def __nv_values__(self) -> list[ir.Value]:
        return self.blocks

    def __nv_rebuild__(self, values: Sequence[ir.Value]) -> Accumulator:
        return Accumulator(self.m, self.n, self.dtype, values)

    def __iadd__(self, product: Product) -> Accumulator:
        """``acc += a @ b``: the same as ``acc = acc.mma(a, b)``."""
        if not isinstance(product, Product):
            raise trace_error(
                f"`accumulator += {type(product).__name__}`",
                rule="an accumulator takes the product of two shared memory tiles",
                fix="acc += A[slot] @ B[slot]; for elementwise work use acc.map(lambda x: ...)",
            )
        return self.mma(product.a, product.b)

    def mma(
        self, a: Tile | Fragment, b: Tile, *, scale_d: Bool = True, commit: bool = True
    ) -> Accumulator:
        """Issue ``self = (scale_d ? self : 0) + a @ b`` as one group of wgmmas; not complete before `wgmma_wait`.

        ``a``: a tile of ``m x k`` elements or a register `Fragment`; ``b``: ``k x n``. Emits ``wgmma.fence``, one wgmma
        for each 32 bytes of k and each 64 rows, and (``commit=True``) ``wgmma.commit_group``. ``scale_d``: a bool, or a
        traced condition; False starts a new sum without zeroing registers.
        """
        k = self._check(a, b)
        steps = k * a.dtype.bytes // WGMMA_K_BYTES
        a_type, b_type = _operand_type(a.dtype), _operand_type(b.dtype)
        wgmma.check_types(a_type, b_type, self.dtype, self.n)
        if self._blocks is None and isinstance(scale_d, bool):
            undefined = llvm.mlir_undef(wgmma.accumulator_type(self.n, self.dtype))
            blocks, scale_d = [undefined] * (self.m // wgmma.M), False
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
                    a_part: Value | list[Value] = a.registers[i][step]  # type: ignore[union-attr]
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
        return [self._elements(ptx.unpack(ptx.touch(block))) for block in self.blocks]

    def _elements(self, fields: list[Value]) -> list[Value]:
        if self.dtype.name != "f16":
            return fields
        pair = ir.VectorType.get([2], self.dtype.ir)
        vectors = [llvm.bitcast(pair, field) for field in fields]
        return [vector.extract(v, [], [i]) for v in vectors for i in (0, 1)]

    def elements(self) -> Iterator[tuple[Value, Value, Value]]:
        """Yield (row, column, value) of this thread's elements. Row and column are i32, within the tile."""
        thread = warpgroup_thread()
        row0, col0 = accumulator_element(thread, 0)
        for i, values in enumerate(self.registers()):
            for register, value in enumerate(values):
                row, col = accumulator_element(0, register)
                yield row0 + (row + i * wgmma.M), col0 + col, value

    def map(self, function: Callable[[Value], Number]) -> Accumulator:
        """A new accumulator of ``function(x)`` for each element x (traced once for each register)."""
        return self.with_registers([[function(v) for v in values] for values in self.registers()])

    def with_registers(self, registers: Sequence[Sequence[Number]]) -> Accumulator:
        """An accumulator of this shape with other elements, in the order of `registers`."""
        blocks = [self._pack([self.dtype(v) for v in values]) for values in registers]
        return Accumulator(self.m, self.n, self.dtype, blocks, touched=True)

    def _pack(self, values: list[Value]) -> ir.Value:
        if self.dtype.name == "f16":
            values = [pack_pair(a, b, self.dtype) for a, b in zip(values[::2], values[1::2], strict=True)]
        return ptx.pack(values)

    def store(self, out: Array, start: Coords) -> None:
        """Write the tile to a 2-D array in global (or dense shared) memory at row, column ``start``.

        Converts to the array's dtype. Two neighbouring elements go in one access where the array's rows
        are contiguous and even; ``start`` must then be an even column. Waits for nothing: `wgmma_wait`
        comes before.
        """
        self._check_store(out, start)
        thread = warpgroup_thread()
        row0, col0 = accumulator_element(thread, 0)
        top, left = start
        rows_contiguous = out.strides[-1] == 1 and out.strides[0] % 2 == 0
        paired = rows_contiguous and (not isinstance(left, int) or left % 2 == 0)
        for i, values in enumerate(self.registers()):
            rows = [index(row0 + top + (i * wgmma.M + h * 8)) for h in (0, 1)]
            for j in range(self.n // 8):
                col = index(col0 + left + j * 8)
                for h in (0, 1):
                    low, high = values[4 * j + 2 * h], values[4 * j + 2 * h + 1]
                    if paired:
                        out.store_vector(pair_vector(low, high, out.dtype), (rows[h], col))
                    else:
                        out[rows[h], col] = low
                        out[rows[h], col + 1] = high

    def _check_store(self, out: Array, start: Coords) -> None:
        fits = isinstance(out, Array) and out.ndim == len(start) == 2
        if fits:
            first = [s if isinstance(s, int) else 0 for s in start]
            fits = all(
                0 <= s and (extent < 0 or s + size <= extent)  # a dynamic extent is negative
                for s, size, extent in zip(first, self.shape, out.shape, strict=True)
            )
        if not fits:
            shown = ", ".join(str(s) if isinstance(s, int) else "..." for s in start)
            raise trace_error(
                f"store of a {self.m} x {self.n} accumulator at ({shown}) of {out!r}",
                rule="the whole tile is written, to a 2-D array that it lies within",
                fix="choose a tile that divides the array, or write `for row, col, x in acc.elements():` with an `if`",
            )

    def fragment(self, dtype: DType) -> Fragment:
        """The accumulator's values as an A operand in registers (f16 or bf16), for the next wgmma.

        The m64nN accumulator's registers are those of N/16 m64k16 A fragments, once packed in pairs
        (PTX ISA, register fragments of A and D).
        """
        if dtype.name not in ("f16", "bf16") or self.n % 16:
            raise trace_error(
                f"a {self.m} x {self.n} accumulator as a fragment of {dtype.name}",
                rule="an accumulator's registers are those of an A operand for f16 and bf16, 16 columns a step "
                "(PTX ISA, wgmma.mma_async, register fragments)",
                fix="convert to nv.f16 or nv.bf16, with a multiple of 16 columns",
            )
        registers = []
        for values in self.registers():
            packed = [pack_pair(a, b, dtype) for a, b in zip(values[::2], values[1::2], strict=True)]
            registers.append([packed[i : i + 4] for i in range(0, len(packed), 4)])
        return Fragment(self.m, self.n, dtype, registers)


def _no_number(what: str) -> TraceError:
    return trace_error(
        what,
        rule="an accumulator is spread over the registers of a warpgroup: each thread holds some of its elements",
        fix="compare the elements: `for row, column, x in acc.elements():`",
    )


class Fragment:
    """An ``m x k`` A operand in registers; `Accumulator.fragment` makes one.

    ``registers[block][step]`` are the four i32 values of a block of 64 rows and a step of 32 bytes along K.
    """

    def __init__(self, m: int, k: int, dtype: DType, registers: list[list[list[Value]]]) -> None:
        self.m, self.k, self.dtype, self.registers = m, k, dtype, registers

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of A, in elements."""
        return (self.m, self.k)

    def __nv_values__(self) -> list[Value]:
        return [x for block in self.registers for step in block for x in step]

    def __nv_rebuild__(self, values: Sequence[Value]) -> Fragment:
        each = iter(values)
        registers = [[[next(each) for _ in step] for step in block] for block in self.registers]
        return Fragment(self.m, self.k, self.dtype, registers)

    def __matmul__(self, other: Tile) -> Product:
        """The product with a tile in shared memory, to be added to an `Accumulator`: ``acc += fragment @ b``."""
        return Product(self, other)


def pair_vector(low: Value, high: Value, dtype: DType) -> Value:
    """Two values as a ``vector<2 x dtype>``, ``low`` first; f32 to f16 and bf16 in one instruction."""
    pair = ir.VectorType.get([2], dtype.ir)
    if str(low.type) == "f32" and dtype.name in ("f16", "bf16"):
        convert = nvvm.convert_f32x2_to_f16x2 if dtype.name == "f16" else nvvm.convert_f32x2_to_bf16x2
        return convert(pair, high, low, rnd=ir.Attribute.parse("#nvvm.fp_rnd_mode<rn>"))
    return vector.from_elements(pair, [dtype(low), dtype(high)])


def pack_pair(low: Value, high: Value, dtype: DType) -> Value:
    """Two 16-bit values in one i32, ``low`` in the low half."""
    return llvm.bitcast(ir.IntegerType.get_signless(32), pair_vector(low, high, dtype))


def _operand_type(dtype: DType) -> DType:
    """wgmma reads f32 tiles as tf32."""
    return dtypes.tf32 if dtype.name == "f32" else dtype


def _advance(descriptor: Value, byte: int) -> Value:
    """A descriptor of the same operand ``byte`` bytes further (its start address field counts 16 bytes)."""
    return descriptor if byte == 0 else descriptor + (byte >> 4)
