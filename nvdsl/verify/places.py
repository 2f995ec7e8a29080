"""Where in shared memory an access lies, where the module determines it.

Addresses count from the start of the block's dynamic shared memory, and are those of each loop's first round: an
address that a kernel really uses, which is enough to say that two accesses meet.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.ir.operands import matrix_shape, named, string, word
from nvdsl.ir.tensor_copies import tensor_map
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.values import dtypes
from nvdsl.verify.context import Context
from nvdsl.verify.mbarriers import box_bytes
from nvdsl.verify.program import Node

_TENSOR_STORES = ("nvvm.cp.async.bulk.tensor.global.shared.cta", "nvvm.cp.async.bulk.tensor.reduce")
TMA_STORES = ("nvgpu.tma.async.store", "nvvm.cp.async.bulk.global.shared.cta", *_TENSOR_STORES)
TMA_LOADS = ("nvgpu.tma.async.load", "nvvm.cp.async.bulk.tensor.shared.cluster.global")
GENERIC_WRITES = (
    "memref.store", "vector.store", "llvm.store", "nvvm.stmatrix", "nvgpu.warpgroup.mma.store", "llvm.atomicrmw",
    "llvm.cmpxchg", "nvgpu.device_async_copy",
)  # fmt: skip
WGMMAS = ("nvvm.wgmma.mma_async", "llvm.inline_asm", "nvgpu.warpgroup.mma")


@dataclass(frozen=True)
class Place:
    """``starts``: addresses, one or an array of them; each access is ``size`` bytes long."""

    starts: Any
    size: int

    def meets(self, other: Place) -> bool:
        if isinstance(self.starts, int) and isinstance(other.starts, int):
            return self.starts < other.starts + other.size and other.starts < self.starts + self.size
        one, two = (np.atleast_1d(np.asarray(p.starts)) for p in (self, other))
        return bool(((one[:, None] < two + other.size) & (two < one[:, None] + self.size)).any())


def of_view(context: Context, memref: Any) -> Place | None:
    """A memref in shared memory, made by memref.view, whole."""
    ty = ir.MemRefType(memref.type)
    view = defining(memref)
    if view is None or view.name != "memref.view" or not ty.has_static_shape:
        return None
    start = context.threads.of(named(view).byte_shift, first=True)
    return None if start is None else Place(start, int(np.prod(ty.shape)) * dtypes.from_ir(ty.element_type).bytes)


def executed(context: Context, node: Node, place: Place | None) -> Place | None:
    """``place`` for the threads alone that reach ``node``."""
    if place is None or isinstance(place.starts, int):
        return place
    starts = place.starts[context.reaches.of(node).lanes]
    return Place(starts, place.size) if len(starts) else None


def tma(context: Context, node: Node) -> Place | None:
    """The shared memory of a TMA copy."""
    return executed(context, node, _tma(context, node))


def _tma(context: Context, node: Node) -> Place | None:
    view = named(node.op)
    if node.name.startswith("nvgpu."):
        return of_view(context, view.dst if node.name in TMA_LOADS else view.src)
    if node.name in TMA_LOADS:
        return _pointer(context, view.dstMem, tensor_map(node.op))
    if node.name in _TENSOR_STORES:
        return _pointer(context, view.srcMem, tensor_map(node.op))
    size, start = context.threads.of(view.size), context.threads.of(view.srcMem, first=True)
    return Place(start, size) if isinstance(size, int) and start is not None else None


def _pointer(context: Context, pointer: Any, tensor_map: Any) -> Place | None:
    start = context.threads.of(pointer, first=True)
    size = box_bytes(tensor_map) if tensor_map is not None else None
    return None if start is None or size is None else Place(start, size)


def generic_write(context: Context, node: Node) -> Place | None:
    """Where the threads that reach an ordinary store write; None for one that isn't to shared memory."""
    op = node.op
    lanes = context.reaches.of(node).lanes
    if node.name in ("llvm.store", "nvvm.stmatrix", "llvm.atomicrmw", "llvm.cmpxchg"):
        pointer = named(op).addr if node.name == "llvm.store" else named(op).ptr
        return _at(context, pointer, lanes) if "<3>" in str(pointer.type) else None
    if node.name == "nvgpu.device_async_copy":
        return _element(context, named(op).dst, list(named(op).dstIndices), lanes)
    if "workgroup" not in str(op.operands[1].type):
        return None
    if node.name == "nvgpu.warpgroup.mma.store":
        return of_view(context, op.operands[1])
    return _element(context, op.operands[1], list(op.operands)[2:], lanes)


def _at(context: Context, pointer: Any, lanes: Any) -> Place | None:
    start = context.threads.of(pointer, first=True)
    return None if start is None else Place(context.threads.array(start)[lanes], 1)


def _element(context: Context, memref: Any, indices: list[Any], lanes: Any) -> Place | None:
    base, ty = of_view(context, memref), ir.MemRefType(memref.type)
    if base is None:
        return None
    strides = ty.get_strides_and_offset()[0]
    offset: Any = 0
    for index, stride in zip(indices, strides, strict=True):
        known = context.threads.of(index, first=True)
        if known is None:
            return None
        offset = offset + known * stride
    size = dtypes.from_ir(ty.element_type).bytes
    starts = context.threads.array(base.starts + offset * size)[lanes]
    return Place(starts, size) if len(starts) else None


@dataclass(frozen=True)
class SmemOperand:
    """A wgmma's operand in shared memory: ``start`` address; ``swizzle`` in bytes, ``leading`` and ``stride`` in bytes
    as its descriptor says (None: nvgpu's op makes the descriptor); ``major``: "k" or "mn", or "" where it isn't known;
    ``offset``: the descriptor's base offset."""

    name: str
    node: Node
    start: int
    swizzle: int
    leading: int | None
    stride: int | None
    major: str
    offset: int = 0


_SWIZZLES = {mode: swizzle for swizzle, mode in arch.WGMMA_SWIZZLE_MODES.items()}


def operands(context: Context, node: Node) -> list[SmemOperand]:
    """The operands in shared memory of a wgmma whose descriptors are known."""
    op = node.op
    if node.name == "nvgpu.warpgroup.mma":
        view = named(op)
        found = [_generated(context, node, "A", view.descriptorA), _generated(context, node, "B", view.descriptorB)]
    elif node.name == "nvvm.wgmma.mma_async":
        # of a row-major A and a column-major B the elements along K are neighbours
        a = "k" if word(op, "layoutA") == "row" else "mn"
        b = "k" if word(op, "layoutB") == "col" else "mn"
        if matrix_shape(op)[1] == arch.WGMMA_N_STEP:
            b = ""  # 8 rows of B have no next 8: their stride is not used
        found = [
            _described(context, node, "A", named(op).descriptorA, a),
            _described(context, node, "B", named(op).descriptorB, b),
        ]
    elif is_inline_wgmma(op):
        descriptors = [x for x in op.operands if str(x.type) == "i64"]
        names = "AB"[-len(descriptors) :]  # A alone is in registers
        found = [_described(context, node, name, x, "") for name, x in zip(names, descriptors, strict=True)]
    else:
        found = []
    return [operand for operand in found if operand is not None]


def is_inline_wgmma(op: Any) -> bool:
    """Of an llvm.inline_asm: wgmma with A or scale-d in registers (`nvdsl.ops.ptx`)."""
    return string(op, "nvdsl.ptx") == "wgmma"


def _described(context: Context, node: Node, name: str, value: Any, major: str) -> SmemOperand | None:
    bits = context.threads.of(value, first=True)
    if isinstance(bits, np.ndarray):
        reached = bits[context.reaches.of(node).lanes]
        bits = reached[0] if len(reached) else None
    if bits is None:
        return None
    bits = int(bits) & (1 << 64) - 1
    start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    return SmemOperand(name, node, start, _SWIZZLES[bits >> 62], leading, stride, major, bits >> 49 & 7)


def _generated(context: Context, node: Node, name: str, value: Any) -> SmemOperand | None:
    op = defining(value)
    if op is None or op.name != "nvgpu.warpgroup.generate.descriptor":
        return None
    place = executed(context, node, of_view(context, named(op).tensor))
    if place is None:
        return None
    start = int(np.atleast_1d(np.asarray(place.starts))[0])
    return SmemOperand(name, node, start, swizzle_of(named(op).tensorMap.type), None, None, "")


def swizzle_of(descriptor: Any) -> int:
    """Bytes of a tensor map's swizzle, 0 for none."""
    match = re.search(r"swizzle = swizzle_(\d+)b", str(descriptor))
    return int(match.group(1)) if match else 0
