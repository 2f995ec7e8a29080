"""Arrays of dynamic extents: kernels take a pointer, extents and strides, and put them together themselves."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.walk import ancestors, defining, identity, walk_outside
from nvdsl.mlir import ir

_VIEWS = ("memref.reinterpret_cast", "memref.subview", "memref.cast")
_CONVERSIONS = ("arith.index_cast", "arith.index_castui")


def sink(host: Any, _kernels: Any, _options: Any) -> None:
    """Make a kernel's uses of the host's dynamic arrays its own: a parameter is a bare pointer or a number."""
    ops = walk_outside(host, ("gpu.launch", "gpu.module"))
    kernels: dict[int, tuple[Any, dict[int, Any]]] = {}  # of a launch: where its own start, and what they are
    for value in [value for op in ops for value in _defined(op) if _is_dynamic(value)]:
        for use in list(value.uses):
            launch = next((op for op, _ in ancestors(use.owner) if op.name == "gpu.launch"), None)
            if launch is None:
                continue
            if hash(launch) not in kernels:
                kernels[hash(launch)] = ir.InsertionPoint.at_block_begin(launch.regions[0].blocks[0]), {}
            use.owner.operands[use.operand_number] = _sunk(value, *kernels[hash(launch)])


def _defined(op: Any) -> list[Any]:
    """The values that an op of the host defines: its results, and the arguments of its blocks."""
    arguments = [value for region in op.regions for block in region.blocks for value in block.arguments]
    return [*op.results, *arguments]


def _sunk(value: Any, at: Any, made: dict[int, Any]) -> Any:
    """``value`` of the host, computed in the kernel from bare pointers and numbers."""
    op, key = defining(value), identity(value)
    if key in made:
        return made[key]
    is_view = op is not None and op.name in _VIEWS and isinstance(value.type, ir.MemRefType) and _is_dynamic(value)
    if op is None or not (is_view or op.name in _CONVERSIONS):
        return value
    operands = [_sunk(operand, at, made) for operand in op.operands]
    clone = op.clone(ip=at)
    for number, operand in enumerate(operands):
        clone.operands[number] = operand
    made[key] = clone.results[0]
    return made[key]


def _is_dynamic(value: Any) -> bool:
    """Whether a value is a memref of which a bare pointer does not say all."""
    type = value.type
    if not isinstance(type, ir.MemRefType):
        return False
    strides, offset = type.get_strides_and_offset()
    return not type.has_static_shape or ir.ShapedType.get_dynamic_stride_or_offset() in (*strides, offset)
