"""Debug mode: the addresses of vector accesses. One that is no multiple of the access's bytes is a fault that names
nobody; here it stops the kernel with its line, as in the simulator."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.location import where
from nvdsl.ir.operands import integer, named
from nvdsl.ir.walk import walk
from nvdsl.lower import debug_ptx
from nvdsl.lower.device_log import Site
from nvdsl.lower.kernels import Kernel
from nvdsl.lower.prepare import Kernels, functions, new
from nvdsl.lower.watchdog import add_site, to_i32, to_i64
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import memref
from nvdsl.values.elements import ELEMENTS

ACCESSES = ("vector.load", "vector.store", "nvgpu.device_async_copy")

_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


def check_alignment(device: Any, kernels: Kernels, _: Any) -> None:
    """An access of several elements stops the kernel where its address is no multiple of its bytes."""
    for function, kernel in functions(device, kernels):
        for op in walk(function):
            if op.name in ACCESSES:
                with ir.InsertionPoint(op), op.location:
                    for what, ref, indices, size in _accesses(op):
                        _check(what, ref, indices, size, kernel, op)


def _accesses(op: Any) -> list[tuple[str, Any, list[Any], int]]:
    """(what, memref, indices, bytes) of each address of an op that has to be aligned to more than an element."""
    view = named(op)
    if op.name == "nvgpu.device_async_copy":
        size = integer(op, "dstElements") * _bytes(view.dst)
        into = ("cp.async", view.dst, list(view.dstIndices), size)
        return [into] if view.srcElements is not None else [into, ("cp.async", view.src, list(view.srcIndices), size)]
    size = integer(op, "alignment", 1)
    ref = op.operands[0 if op.name == "vector.load" else 1]
    indices = list(op.operands)[1 if op.name == "vector.load" else 2 :]
    return [(op.name.removeprefix("vector."), ref, indices, size)] if size > _bytes(ref) else []


def _check(what: str, ref: Any, indices: list[Any], size: int, kernel: Kernel, op: Any) -> None:
    offset: Any
    strides, offset = ref.type.get_strides_and_offset()
    steps: list[Any] = list(strides)
    if offset == _DYNAMIC or _DYNAMIC in steps:
        metadata = memref.ExtractStridedMetadataOp(ref)
        offset = metadata.offset if offset == _DYNAMIC else _constant(offset)
        steps = [metadata.strides[i] if step == _DYNAMIC else step for i, step in enumerate(steps)]
    else:
        offset = _constant(offset)
    for index, step in zip(indices, steps, strict=True):
        offset = _op("addi", offset, _op("muli", index, step if isinstance(step, ir.Value) else _constant(step)))
    start = memref.extract_aligned_pointer_as_index(ref)
    address = _op("addi", start, _op("muli", offset, _constant(_bytes(ref))))
    rest = _op("andi", address, _constant(size - 1))
    equal = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    holds = new("arith.cmpi", ir.IntegerType.get_signless(1), rest, _constant(0), predicate=equal)
    site = Site("misaligned", where(op), what, count=size, types=("index",))
    debug_ptx.emit(debug_ptx.require(add_site(kernel, site), 1), to_i32(holds), to_i64(rest))


def _op(name: str, a: Any, b: Any) -> Any:
    return new(f"arith.{name}", ir.IndexType.get(), a, b)


def _constant(value: int) -> Any:
    return new("arith.constant", ir.IndexType.get(), value=ir.IntegerAttr.get(ir.IndexType.get(), value))


def _bytes(ref: Any) -> int:
    dtype = ELEMENTS.get(str(ref.type.element_type))
    return dtype.bytes if dtype else 1
