"""wgmma: asynchronous matrix multiply-accumulate of a warpgroup.

PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions". Four warps together
compute ``D[64, N] (+)= A[64, K] B[K, N]``, where K is 32 bytes of elements. A comes from shared memory
(through a matrix descriptor) or from registers, B from shared memory, D stays in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.layout import WGMMA_K_BYTES, Operand
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, nvvm
from nvdsl.ops import ptx
from nvdsl.ops.pointer import i32
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.python_numbers import plain
from nvdsl.values.traced import Value, as_value, const
from nvdsl.values.typing import Bool, Int

M = 64
"""Rows of one wgmma."""

_FLOAT8 = ("e4m3", "e5m2")
_INT8 = ("i8", "u8")

TYPES: dict[tuple[str, str], tuple[str, ...]] = {
    ("f16", "f16"): ("f32", "f16"),
    ("bf16", "bf16"): ("f32",),
    ("tf32", "tf32"): ("f32",),
    **{(a, b): ("f32", "f16") for a in _FLOAT8 for b in _FLOAT8},
    **{(a, b): ("i32",) for a in _INT8 for b in _INT8},
}
"""Accumulator types by the types of A and B (PTX ISA, wgmma.mma_async, "Shapes and types")."""

_PTX_NAME = {"i8": "s8", "i32": "s32"}


def wgmma_fence() -> None:
    """Order register and shared memory accesses before the wgmmas that follow (``wgmma.fence.sync.aligned``).

    Needed before the first wgmma and wherever registers of an accumulator or of A were touched.
    """
    nvvm.wgmma_fence_aligned()


def wgmma_commit() -> None:
    """Close the warpgroup's current group of wgmmas (``wgmma.commit_group.sync.aligned``)."""
    nvvm.wgmma_commit_group_sync_aligned()


def wgmma_wait(pending: int = 0) -> None:
    """Wait until at most ``pending`` wgmma groups are in flight (``wgmma.wait_group.sync.aligned``)."""
    pending = plain(pending)
    if not isinstance(pending, int) or not 0 <= pending <= 7:
        raise trace_error(
            f"wgmma_wait({pending!r})",
            rule="the number of groups left in flight is a constant from 0 to 7 (PTX ISA, wgmma.wait_group)",
            fix="wgmma_wait(0) waits for all, wgmma_wait(1) leaves the newest in flight",
        )
    nvvm.wgmma_wait_group_sync_aligned(pending)


def check_types(a: DType, b: DType, d: DType, n: int) -> None:
    """Raise TraceError unless ``wgmma`` exists for these types and this N."""
    accumulators = TYPES.get((a.name, b.name))
    if accumulators is None or d.name not in accumulators:
        raise trace_error(
            f"no wgmma multiplies {a.name} by {b.name} into {d.name}",
            rule="wgmma takes " + "; ".join(f"{x}*{y} -> {'/'.join(z)}" for (x, y), z in TYPES.items()),
            fix=f"accumulate in {accumulators[0]}" if accumulators else "convert the operands to one type",
        )
    integer = a.name in _INT8
    if not 8 <= n <= 256 or n % 8 or (integer and n > 24 and n % 16):
        raise trace_error(
            f"no wgmma has N = {n} for {a.name}",
            rule="N is a multiple of 8 from 8 to 256; for 8-bit integers 8, 16, 24 and multiples of 16 from 32 "
            "(PTX ISA, wgmma.mma_async, shapes)",
            fix="split N into such pieces",
        )


def accumulator_type(n: int, dtype: DType) -> ir.Type:
    """Type of an m64nN accumulator of one thread: N/2 f32 or i32, or N/4 i32 that each hold two f16."""
    if dtype.name == "f16":
        return llvm.StructType.get_literal([ir.IntegerType.get_signless(32)] * (n // 4))
    return llvm.StructType.get_literal([dtype.ir] * (n // 2))


def descriptor(address: Int, operand: Operand) -> Value:
    """64-bit matrix descriptor of a tile (PTX ISA, "Matrix Descriptor Format"), i64.

    ``address``: the tile's byte address in shared memory, i32. Constant fields come from ``operand``.
    """
    return _join_descriptor(address, operand.descriptor_constant())


def _join_descriptor(address: Int, constant: int) -> Value:
    i64 = ir.IntegerType.get_signless(64)
    start = dtypes.u64(dtypes.u32((i32(address) >> 4) & 0x3FFF))
    signed = constant - (1 << 64) if constant >= 1 << 63 else constant
    return as_value(start) | const(signed, i64)


def mma_async(
    accumulator: ir.Value,
    a: Value | Sequence[Value],
    b: Value,
    *,
    n: int,
    a_dtype: DType,
    b_dtype: DType,
    d_dtype: DType,
    a_major: str = "k",
    b_major: str = "k",
    scale_d: Bool = True,
    scale_a: int = 1,
    scale_b: int = 1,
) -> ir.Value:
    """One ``wgmma.mma_async.sync.aligned.m64nNkK``: ``D = A B + (scale_d ? D : 0)``.

    ``accumulator``: struct of `accumulator_type`. ``a``: a descriptor (i64), or the four i32 registers of an
    A fragment. ``b``: a descriptor. ``*_major``: "k" or "mn" ("mn" for 16-bit types only). ``scale_d``: a
    bool, or a traced condition. ``scale_a``, ``scale_b``: 1 or -1. Returns the new accumulator, which
    is not to be read before `wgmma_wait`.
    """
    check_types(a_dtype, b_dtype, d_dtype, n)
    in_registers = isinstance(a, (list, tuple))
    for name, dtype, major in (("A", a_dtype, a_major), ("B", b_dtype, b_major)):
        if major == "mn" and dtype.bits != 16:
            raise trace_error(
                f"{name} of type {dtype.name} is {'M' if name == 'A' else 'N'}-major",
                rule="only 16-bit types can be transposed by wgmma; tf32, fp8 and int8 operands are K-major "
                "(PTX ISA, wgmma.mma_async, imm-trans)",
                fix="store the operand with K contiguous",
            )
    _check_scales(scale_a, scale_b, a_dtype)
    if in_registers or not isinstance(scale_d, bool):
        return _mma_ptx(
            accumulator, a, b, n, (a_dtype, b_dtype, d_dtype), (a_major, b_major), scale_d, (scale_a, scale_b)
        )
    k = WGMMA_K_BYTES * 8 // a_dtype.bits
    one, neg = nvvm.WGMMAScaleIn.one, nvvm.WGMMAScaleIn.neg
    return nvvm.wgmma_mma_async(
        accumulator.type,
        accumulator,
        a,
        b,
        ir.Attribute.parse(f"#nvvm.shape<m = {M}, n = {n}, k = {k}>"),
        _mlir_type(a_dtype),
        _mlir_type(b_dtype),
        _mlir_type(d_dtype),
        nvvm.WGMMAScaleOut.one if scale_d else nvvm.WGMMAScaleOut.zero,
        one if scale_a == 1 else neg,
        one if scale_b == 1 else neg,
        nvvm.MMALayout.row if a_major == "k" else nvvm.MMALayout.col,
        nvvm.MMALayout.col if b_major == "k" else nvvm.MMALayout.row,
    )


def _check_scales(scale_a: int, scale_b: int, a_dtype: DType) -> None:
    if {scale_a, scale_b} - {1, -1} or (a_dtype.name in _INT8 and (scale_a, scale_b) != (1, 1)):
        raise trace_error(
            f"wgmma of {a_dtype.name} with scale_a={scale_a}, scale_b={scale_b}",
            rule="a scale is 1 or -1; integer types have none (PTX ISA, wgmma.mma_async, imm-scale)",
            fix="scale the accumulator's elements instead",
        )


def _mlir_type(dtype: DType) -> Any:
    return getattr(nvvm.WGMMATypes, _PTX_NAME.get(dtype.name, dtype.name))


def _mma_ptx(
    accumulator: ir.Value,
    a: Value | Sequence[Value],
    b: Value,
    n: int,
    types: tuple[DType, DType, DType],
    majors: tuple[str, str],
    scale_d: Bool,
    scales: tuple[int, int],
) -> ir.Value:
    """The forms that nvvm.wgmma.mma_async lacks: A in registers, scale-d in a register."""
    a_dtype, b_dtype, d_dtype = types
    k = WGMMA_K_BYTES * 8 // a_dtype.bits
    a_registers = a if isinstance(a, (list, tuple)) else [a]
    scale = i32(scale_d) if not isinstance(scale_d, bool) else const(int(scale_d), dtypes.i32.ir)
    outputs = list(llvm.StructType(accumulator.type).body)
    count = len(outputs)
    d_text = "{" + ", ".join(f"${i}" for i in range(count)) + "}"
    a_text = ", ".join(f"${count + i}" for i in range(len(a_registers)))
    if isinstance(a, (list, tuple)):
        a_text = "{" + a_text + "}"
    b_at = count + len(a_registers)
    immediates = []
    if a_dtype.name not in _INT8:
        immediates += [str(scales[0]), str(scales[1])]
    if a_dtype.bits == 16:  # imm-trans-a exists only with A in shared memory
        if not isinstance(a, (list, tuple)):
            immediates.append(str(int(majors[0] == "mn")))
        immediates.append(str(int(majors[1] == "mn")))
    names = ".".join(_PTX_NAME.get(t.name, t.name) for t in (d_dtype, a_dtype, b_dtype))
    text = (
        f"{{ .reg .pred p; setp.ne.b32 p, ${b_at + 1}, 0; "
        f"wgmma.mma_async.sync.aligned.m{M}n{n}k{k}.{names} {d_text}, {a_text}, ${b_at}, "
        + ", ".join(["p", *immediates])
        + "; }"
    )
    register = ptx.register_constraint(outputs[0])
    constraints = [f"={register}"] * count
    constraints += ["r" if isinstance(a, (list, tuple)) else "l"] * len(a_registers) + ["l", "r"]
    constraints += [str(i) for i in range(count)]
    return ptx.emit("wgmma", text, constraints, [*a_registers, b, scale, accumulator], accumulator.type)
