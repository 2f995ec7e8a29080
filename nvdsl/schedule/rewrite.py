"""Parts of rewrites: keys for values, what is in shared memory, slices of a block, copies of operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nvdsl.ir.walk import defining, walk
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import memref


def key(value: Any) -> int:
    """A key for a value in a dictionary. (Wrapped values overload ``==``, so that they can't be keys themselves.)"""
    return ir.Value.__hash__(value)


def is_shared(value: Any) -> bool:
    """Whether a memref is in shared memory."""
    return isinstance(value.type, ir.MemRefType) and "workgroup" in str(value.type.memory_space)


def slice_of(roots: Iterable[Any], ops: Sequence[Any]) -> set[Any]:
    """Those of ``ops`` that ``roots`` are computed from, the roots included."""
    inside, found, waiting = set(ops), set(), list(roots)
    while waiting:
        op = waiting.pop()
        if op in inside and op not in found:
            found.add(op)
            waiting += [maker for one in walk(op) for v in one.operands if (maker := defining(v)) is not None]
    return found


def clone(ops: Iterable[Any], values: dict[int, Any]) -> dict[int, Any]:
    """Copies of ``ops`` at the insertion point. ``values``: by `key`, what stands for values of the originals; the
    copies' results are added to a copy of it, which is returned."""
    values = dict(values)
    for op in ops:
        made = op.clone()
        for one in walk(made):
            for number, value in enumerate(one.operands):
                if key(value) in values:
                    one.operands[number] = values[key(value)]
        for old, new in zip(op.results, made.results, strict=True):
            values[key(old)] = new
    return values


def apply(operation: Any, elements: Sequence[Any]) -> Any:
    """What the body of an elementwise operation makes of elements, which stand for its arguments in order."""
    body = operation.regions[0].blocks[0]
    *ops, end = [one.operation for one in body.operations]
    values = clone(ops, {key(argument): x for argument, x in zip(body.arguments, elements, strict=False)})
    return values.get(key(end.operands[0]), end.operands[0])


def whole_view(value: Any, drop: int = 0) -> Any:
    """A view of all of an array, without its first ``drop`` axes, which have one element."""
    type = ir.MemRefType(value.type)
    strides, offset = type.get_strides_and_offset()
    layout = ir.StridedLayoutAttr.get(offset, strides[drop:])
    part = ir.MemRefType.get(type.shape[drop:], type.element_type, layout, type.memory_space)
    zeros, ones = [0] * type.rank, [1] * type.rank
    return memref.SubViewOp(part, value, [], [], [], zeros, list(type.shape), ones).result
