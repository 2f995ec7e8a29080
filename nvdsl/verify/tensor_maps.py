"""Tensor maps whose array and box are known when the module is traced: all of cuTensorMapEncodeTiled's rules."""

from __future__ import annotations

from typing import Any

from nvdsl.errors import VerifyError
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import nvgpu
from nvdsl.tensormap import TensorMap
from nvdsl.trace.location import where
from nvdsl.verify.program import Program
from nvdsl.verify.walk import constant, defining


def check(program: Program) -> None:
    for node in program.named["nvgpu.tma.create.descriptor"]:
        op = node.op
        described = describe(op)
        problems = described.check() if described else []
        if problems:
            raise VerifyError(
                "this tensor map is not possible: " + "; ".join(problems),
                where=where(op),
                rule="CUDA driver API, cuTensorMapEncodeTiled; PTX ISA, Tensors",
                fix="choose a box and a swizzle that fit the array, or pad the array's rows",
            )


def describe(op: Any) -> TensorMap | None:
    """The tensor map that ``nvgpu.tma.create.descriptor`` encodes, or None where its source isn't static."""
    cast = defining(op.operands[0])
    box = [constant(size) for size in list(op.operands)[1:]]
    if cast is None or cast.name != "memref.cast" or None in box:
        return None
    source = ir.MemRefType(cast.operands[0].type)
    strides = source.get_strides_and_offset()[0]
    dynamic = ir.ShapedType.get_dynamic_size()
    if dynamic in source.shape or dynamic in strides:
        return None
    modes = nvgpu.TensorMapDescriptorType(op.results[0].type)
    return TensorMap(
        str(source.element_type),
        tuple(source.shape),
        tuple(strides),
        tuple(box),  # type: ignore[arg-type]
        *(_mode(modes, name) for name in ("swizzle", "l2promo", "oob", "interleave")),
    )


def _mode(ty: Any, name: str) -> str:
    """``name = value`` of the descriptor type's text (the bindings give no getters for these)."""
    text = str(ty)
    return text.split(f"{name} = ")[1].split(",")[0].rstrip("> ")
