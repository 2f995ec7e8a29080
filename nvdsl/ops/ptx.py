"""Every inline PTX text that nvdsl can emit, with a name each.

The dialects have no op for these. The op carries the name as the attribute ``nvdsl.ptx``, so that
the verifier and a simulator know what it does without reading PTX.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm
from nvdsl.values import arith
from nvdsl.values.traced import Value

ORDER = "order"
"""The name of `order.sched_barrier`'s, which returns nothing."""

REGISTRY = {
    "wgmma": "wgmma.mma_async with A in registers or scale-d in a register; nvvm.wgmma.mma_async has neither",
    "mma": "mma.sync of 8-bit floats, and of f64 with 16 rows; nvvm.mma.sync has neither",
    "try_wait": "mbarrier.try_wait.parity.acquire.cluster; nvgpu's and nvvm's waits have no scope",
    "st_async": "st.async, which completes its bytes on an mbarrier of another block; no dialect has it",
    "atom": "atom of several elements; LLVM has atomics of one",
    ORDER: "an event that never is: what it depends on is computed before the waits behind it",
    "barrier_any": "barrier.red.or of a named barrier; nvvm.barrier reduces at barrier 0 alone",
    "touch": "no instruction: registers that the compiler must not move across this point",
}


def emit(
    name: str,
    text: str,
    constraints: Sequence[str],
    operands: Sequence[ir.Value],
    result: ir.Type,
) -> ir.Value:
    """One ``llvm.inline_asm`` of the registry. ``result``: its type, a struct for several outputs.

    The last of ``operands`` may be a struct: its fields in a row, each with a constraint of its own. Lowering takes it
    apart (`nvdsl.lower.structs`)."""
    assert name in REGISTRY, name
    op = llvm.InlineAsmOp(
        result,
        operands,
        text,
        ",".join(constraints),
        has_side_effects=True,
        asm_dialect=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
    )
    op.operation.attributes["nvdsl.ptx"] = ir.StringAttr.get(name)
    return op.results[0]


def unpack(struct: ir.Value) -> list[Value]:
    """The fields of an ``!llvm.struct`` value."""
    places = ir.DenseI64ArrayAttr.get
    types = llvm.StructType(struct.type).body
    return [arith.emit("llvm.extractvalue", ty, struct, position=places([i])) for i, ty in enumerate(types)]


def pack(values: Sequence[ir.Value]) -> ir.Value:
    """An ``!llvm.struct`` of ``values``."""
    ty = llvm.StructType.get_literal([v.type for v in values])
    struct = llvm.mlir_undef(ty)
    for i, value in enumerate(values):
        struct = llvm.insertvalue(struct, value, ir.DenseI64ArrayAttr.get([i]))
    return struct


def register_constraint(ty: ir.Type) -> str:
    """The PTX register class of an MLIR type."""
    return {"f32": "f", "i32": "r", "i64": "l", "f64": "d", "i16": "h", "f16": "h", "bf16": "h"}[str(ty)]


def touch(struct: ir.Value) -> ir.Value:
    """The same registers, made opaque: LLVM can't move arithmetic on them across this point.

    LLVM sees a wgmma's result as ready at once. Put this after the wait that makes it so, and before
    the fence where arithmetic on the accumulator comes before a wgmma.
    """
    types = list(llvm.StructType(struct.type).body)
    classes = [register_constraint(t) for t in types]
    constraints = [f"={c}" for c in classes] + [str(i) for i in range(len(types))]
    if len(types) == 1:  # LLVM's inline assembly returns a struct for several outputs only
        return pack([emit("touch", "", constraints, unpack(struct), types[0])])
    return emit("touch", "", constraints, [struct], struct.type)
