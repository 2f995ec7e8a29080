"""Tensor maps whose array and box are known when the module is traced: all of cuTensorMapEncodeTiled's rules, and that
no store through them can reach past the array's end."""

from __future__ import annotations

import math
from typing import Any

from nvdsl.errors import VerifyError
from nvdsl.hopper import arch
from nvdsl.hopper.tensor_maps import TensorMap, listed
from nvdsl.ir import tensor_copies
from nvdsl.ir.location import where
from nvdsl.ir.tensor_copies import TensorCopy
from nvdsl.ir.walk import constant, defining
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import nvgpu
from nvdsl.values.elements import ELEMENTS
from nvdsl.verify.program import Program

_VIEWS = ("memref.subview", "memref.cast", "memref.reinterpret_cast")


def check(program: Program) -> None:
    for node in program.named["nvgpu.tma.create.descriptor"]:
        op = node.op
        described = describe(op) or describe(op, dynamic=True)
        problems = described.check() if described else []
        if problems:
            what, fix = listed(problems, "; ")
            raise VerifyError(
                f"this tensor map is not possible: {what}",
                where=where(op),
                rule="CUDA driver API, cuTensorMapEncodeTiled; PTX ISA, Tensors",
                fix=fix,
            )
    for kernel in program.kernels:
        for node in kernel.find(*tensor_copies.COPIES):
            copy = tensor_copies.of(node.op)
            if copy is not None and copy.out:
                _check_end(copy)


def _check_end(copy: TensorCopy) -> None:
    op = defining(copy.tensor_map)
    described = describe(op) if op is not None and op.name == "nvgpu.tma.create.descriptor" else None
    if described is None or _room(op) >= described.past_end:
        return
    if _room(op) < 0:
        raise VerifyError(
            f"a {copy.what} through a tensor map of windows that reach over the array's end",
            where=where(op),
            rule="a store writes all rows of its box that are the tensor's, also those that the array does not have",
            fix="make the map of the array itself: windows are for loads",
        )
    cols, unit = described.shape[-1], arch.TMA_STORE_UNIT // ELEMENTS[described.element].bytes
    whole = cols // unit * unit
    dims = "x".join(map(str, described.shape))
    rest = f"make the map of the first {whole} and store the other {cols - whole}" if whole else "store it"
    raise VerifyError(
        f"a {copy.what} through this tensor map of {dims} {described.element} can write {described.past_end} bytes "
        "past the array's end",
        where=where(op),
        rule=f"stores and reductions by TMA clip a row at whole {arch.TMA_STORE_UNIT} bytes, here at {whole + unit} "
        f"elements, not at {cols} (measured on an H200: docs/hardware.md)",
        fix=f"take a part x[..., :{cols}] of an array of {whole + unit} columns, or {rest} with ordinary stores",
    )


def _room(op: Any) -> float:
    """Bytes between the end of what a tensor map describes and the end of the array of which that is a view."""
    view = array = defining(op.operands[0]).operands[0]  # type: ignore[union-attr]
    while (source := defining(array)) is not None and source.name in _VIEWS:
        array = source.operands[0]
    ends = _end(view.type), _end(array.type)
    return math.inf if None in ends else ends[1] - ends[0]  # type: ignore[operator]


def _end(ty: Any) -> int | None:
    """Bytes from an array's base to the end of its last element; None where that isn't known."""
    if not isinstance(ty, ir.MemRefType) or not ty.has_static_shape:
        return None
    strides, offset = ty.get_strides_and_offset()
    if ir.ShapedType.get_dynamic_stride_or_offset() in (offset, *strides):
        return None
    last = sum((extent - 1) * stride for extent, stride in zip(ty.shape, strides, strict=True))
    return (offset + last + 1) * ELEMENTS[str(ty.element_type)].bytes


_LEGAL = 1 << 16
"""In place of an extent or a stride that only a run knows."""


def describe(op: Any, dynamic: bool = False) -> TensorMap | None:
    """The tensor map that ``nvgpu.tma.create.descriptor`` encodes, or None where its source isn't static. With
    ``dynamic``: one that breaks no rule by what only a run knows."""
    cast = defining(op.operands[0])
    box = [constant(size) for size in list(op.operands)[1:]]
    if cast is None or cast.name != "memref.cast" or None in box:
        return None
    source = ir.MemRefType(cast.operands[0].type)
    strides = source.get_strides_and_offset()[0]
    unknown = ir.ShapedType.get_dynamic_size()
    if (unknown in source.shape or unknown in strides) and (not dynamic or strides[-1:] != [1]):
        return None
    modes = nvgpu.TensorMapDescriptorType(op.results[0].type)
    return TensorMap(
        str(source.element_type),
        tuple(_LEGAL if n == unknown else n for n in source.shape),
        tuple(_LEGAL if n == unknown else n for n in strides),
        tuple(box),  # type: ignore[arg-type]
        *(_mode(modes, name) for name in ("swizzle", "l2promo", "oob", "interleave")),
    )


def _mode(ty: Any, name: str) -> str:
    """``name = value`` of the descriptor type's text (the bindings give no getters for these)."""
    text = str(ty)
    return text.split(f"{name} = ")[1].split(",")[0].rstrip("> ")
