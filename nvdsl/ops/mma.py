"""mma.sync: matrix multiply-accumulate of one warp, with all operands in registers.

PTX ISA, "Warp Level Matrix Instructions", ``mma.sync``. The 32 lanes together compute ``D[M, N] = A[M, K] B[K, N] +
C[M, N]``. Registers are 32-bit words that hold ``4 // itemsize`` neighbouring elements along K (f64 takes a register of
its own); `layout.mma_a`, `layout.mma_b` and `layout.mma_c` say which element lies where. The result is there at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvdsl.errors import trace_error
from nvdsl.hopper.arch import WARP_SIZE
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, nvvm
from nvdsl.ops import ptx
from nvdsl.values import dtypes, scope
from nvdsl.values.dtypes import DType
from nvdsl.values.traced import Value, as_value

N = 8
"""Columns of one mma.sync."""

_FLOAT8 = ("e4m3", "e5m2")
_INT8 = ("i8", "u8")

TYPES: dict[tuple[str, str], tuple[tuple[str, ...], tuple[tuple[int, int], ...]]] = {
    ("f16", "f16"): (("f32", "f16"), ((16, 8), (16, 16))),
    ("bf16", "bf16"): (("f32",), ((16, 8), (16, 16))),
    ("tf32", "tf32"): (("f32",), ((16, 4), (16, 8))),
    ("f64", "f64"): (("f64",), ((8, 4), (16, 4), (16, 8), (16, 16))),
    **{(a, b): (("f32",), ((16, 32),)) for a in _FLOAT8 for b in _FLOAT8},
    **{(a, b): (("i32",), ((8, 16), (16, 16), (16, 32))) for a in _INT8 for b in _INT8},
}
"""By the types of A and B: the types of the sums, and the shapes (M, K); N is 8 (PTX ISA 8.6, mma, sm_90)."""

_PTX_NAME = {"i8": "s8", "i32": "s32"}


def check_types(a: DType, b: DType, d: DType, m: int, k: int) -> None:
    """Raise TraceError unless ``mma.sync`` exists for these types and this shape on sm_90."""
    sums, shapes = TYPES.get((a.name, b.name), ((), ()))
    if d.name not in sums:
        raise trace_error(
            f"no mma.sync multiplies {a.name} by {b.name} into {d.name}",
            rule="mma.sync takes "
            + "; ".join(f"{x}*{y} -> {'/'.join(z)}" for (x, y), (z, _) in TYPES.items())
            + " (PTX ISA 8.6, mma)",
            fix=f"accumulate in {sums[0]}" if sums else "convert the operands to one type",
        )
    if (m, k) not in shapes:
        raise trace_error(
            f"no mma.sync of {a.name} has the shape m{m}n{N}k{k}",
            rule=f"{a.name} has " + ", ".join(f"m{x}n{N}k{y}" for x, y in shapes) + " (PTX ISA 8.6, mma)",
            fix="split the product into such pieces",
        )


def registers(m: int, k: int, dtype: DType, d_dtype: DType) -> tuple[int, int, int]:
    """How many registers of a lane hold A (``m x k``), B (``k x 8``) and the sums (``m x 8``)."""
    width = max(dtype.bytes, 4)
    lane = width * WARP_SIZE
    sums = m * N * d_dtype.bytes // (max(d_dtype.bytes, 4) * WARP_SIZE)
    return m * k * dtype.bytes // lane, k * N * dtype.bytes // lane, sums


def mma_sync(
    a: Sequence[Value],
    b: Sequence[Value],
    c: Sequence[Value],
    *,
    k: int,
    a_dtype: DType,
    b_dtype: DType | None = None,
    d_dtype: DType = dtypes.f32,
    m: int = 16,
) -> list[Value]:
    """One ``mma.sync.aligned.m{m}n8k{k}.row.col``: the registers of ``A B + C``. All lanes of the warp execute it.

    ``a``, ``b``: i32 registers of packed elements (of tf32 and 8-bit types their bits), or f64 values. ``c``, and what
    is returned: f32, i32 or f64 values, or i32 registers that each hold two f16. `registers` counts them. ``b_dtype``:
    A's unless given. nvvm.mma.sync where the dialect has the shape, else inline PTX.

    Raises TraceError for types and shapes that mma.sync does not have, and for other registers than these.
    """
    b_dtype = b_dtype or a_dtype
    check_types(a_dtype, b_dtype, d_dtype, m, k)
    _check_warps()
    left, right, before = ([as_value(x) for x in some] for some in (a, b, c))
    operand = "f64" if a_dtype.name == "f64" else "i32"
    sums = "i32" if d_dtype.name == "f16" else d_dtype.name
    wanted = zip("ABC", (left, right, before), registers(m, k, a_dtype, d_dtype), (operand, operand, sums), strict=True)
    for name, given, count, kind in wanted:
        _check_registers(f"{name} of an m{m}n{N}k{k} mma.sync of {a_dtype.name}", given, count, kind)
    if a_dtype.name in _FLOAT8 or (a_dtype.name == "f64" and m == 16):
        return _inline(left, right, before, m, k, (a_dtype, b_dtype, d_dtype))
    return _dialect(left, right, before, m, k, (a_dtype, b_dtype, d_dtype))


def _check_warps() -> None:
    threads = scope.current("mma_sync").threads
    if threads % WARP_SIZE:
        raise trace_error(
            f"mma.sync in a block of {threads} threads",
            rule="all 32 lanes of a warp execute it, each with its part of the matrices (PTX ISA, mma)",
            fix=f"use a block of a multiple of {WARP_SIZE} threads",
        )


def _check_registers(what: str, given: Sequence[Value], count: int, kind: str) -> None:
    if len(given) != count:
        raise trace_error(
            f"{len(given)} registers for {what}",
            rule=f"a lane holds {count} registers of it (PTX ISA, Matrix Fragments for mma)",
            fix="nvdsl.ops.mma.registers(m, k, dtype, d_dtype) counts them",
        )
    for one in given:
        if str(one.type) != kind:
            raise trace_error(
                f"a register of type {one.dtype.name} for {what}",
                rule=f"its registers are {kind} (PTX ISA, mma)",
                fix="pack two 16-bit elements with nv.pack_pair(low, high, dtype), and take the bits of others with "
                "nv.bitcast(x, nv.i32)",
            )


Types = tuple[DType, DType, DType]


def _dialect(a: list[Value], b: list[Value], c: list[Value], m: int, k: int, types: Types) -> list[Value]:
    a_dtype, b_dtype, d_dtype = types
    half = ir.VectorType.get([2], dtypes.f16.ir)
    if a_dtype.name == "f16":
        a, b = ([llvm.bitcast(half, x) for x in some] for some in (a, b))
    if d_dtype.name == "f16":
        c = [llvm.bitcast(half, x) for x in c]
    extra = {  # MLIR's verifier ends the process where they are left out
        f"multiplicand{name}PtxType": ir.Attribute.parse(f"#nvvm.mma_type<{_PTX_NAME.get(t.name, t.name)}>")
        for name, t in (("A", a_dtype), ("B", b_dtype))
    }
    if a_dtype.name in _INT8:
        extra["intOverflowBehavior"] = ir.Attribute.parse("#nvvm.mma_int_overflow<wrapped>")
    made = nvvm.MmaOp(
        llvm.StructType.get_literal([x.type for x in c]),
        ir.Attribute.parse(f"#nvvm.shape<m = {m}, n = {N}, k = {k}>"),
        nvvm.MMALayout.row,
        nvvm.MMALayout.col,
        a,
        b,
        c,
        **extra,
    )
    found = ptx.unpack(made.result)
    return [llvm.bitcast(dtypes.i32.ir, x) for x in found] if d_dtype.name == "f16" else found


def _inline(a: list[Value], b: list[Value], c: list[Value], m: int, k: int, types: Types) -> list[Value]:
    """The forms that nvvm.mma.sync lacks: 8-bit floats, and f64 with 16 rows."""
    a_dtype, b_dtype, d_dtype = types
    groups, at = [], 0
    for some in (c, a, b, c):
        groups.append("{" + ", ".join(f"${at + i}" for i in range(len(some))) + "}")
        at += len(some)
    names = ".".join(t.name for t in (d_dtype, a_dtype, b_dtype, d_dtype))
    text = f"mma.sync.aligned.m{m}n{N}k{k}.row.col.{names} {', '.join(groups)};"
    operands = [*a, *b, *c]
    constraints = [f"={ptx.register_constraint(x.type)}" for x in c]
    constraints += [ptx.register_constraint(x.type) for x in operands]
    result = llvm.StructType.get_literal([x.type for x in c])
    return ptx.unpack(ptx.emit("mma", text, constraints, operands, result))
