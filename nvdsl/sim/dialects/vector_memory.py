"""vector, memory: loads and stores of contiguous elements, and transfers, which leave out what is out of bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nvdsl.ir.operands import integer, integers, named
from nvdsl.mlir import ir
from nvdsl.sim.access import Accessor
from nvdsl.sim.decode import Decoder, Frame, op, unknown
from nvdsl.sim.dialects.memref_memory import loads, stores
from nvdsl.sim.dialects.vector import stack
from nvdsl.sim.indexer import Indexer
from nvdsl.sim.values import LANES


def _vector_access(d: Decoder, op: Any, ref: Any, indices: list[int], type: Any) -> tuple[Indexer, Accessor]:
    """One access of contiguous elements by each lane."""
    if len(type.shape) != 1:
        raise unknown(op, "a vector of more than one dimension")
    count = type.shape[0]
    index = Indexer(d, op, ref, indices, trailing=count)
    if index.layout.strides and index.layout.strides[-1] != index.layout.element.bytes:
        raise unknown(op, "elements that are not contiguous")
    alignment = integer(op, "alignment", 1)
    used = used_elements(op.results[0]) if op.results else None
    return index, Accessor(index.layout.space, index.layout.element, count, alignment, index.at, used=used)


def used_elements(vector: Any) -> list[int] | None:
    """The elements of a loaded vector that anything takes out of it; None where it is used as a whole."""
    used: set[int] = set()
    for use in vector.uses:
        user = use.owner.operation
        is_one = user.name == "vector.extract"
        position = integers(user, "static_position") if is_one else []
        if len(position) != 1 or position[0] == ir.ShapedType.get_dynamic_size():
            return None
        used.add(position[0])
    return None if len(used) == vector.type.shape[0] else sorted(used)


@op("vector.load")
def _load(d: Decoder, op: Any) -> Any:
    return loads(d, op, *_vector_access(d, op, op.operands[0], d.operands(op)[1:], op.results[0].type))


@op("vector.store")
def _store(d: Decoder, op: Any) -> Any:
    return stores(d, op, *_vector_access(d, op, op.operands[1], d.operands(op)[2:], op.operands[0].type))


class _Transfer:
    """The elements of a transfer's vector of rank 1, along the array's last axis."""

    def __init__(self, d: Decoder, op: Any, ref: Any, indices: list[int], type: Any, mask: int | None) -> None:
        order = [str(x) for x in ir.AffineMapAttr(op.attributes["permutation_map"]).value.results]
        if len(type.shape) != 1 or order != [f"d{len(indices) - 1}"]:
            raise unknown(op, "a transfer that is not of one vector along the last axis")
        inside = [ir.BoolAttr(x).value for x in ir.ArrayAttr(op.attributes["in_bounds"])] == [True]
        self.count = type.shape[0]
        self.index = Indexer(d, op, ref, indices, trailing=self.count if inside else 1)
        self.index.bounded = inside  # what lies outside is no error
        self.access = Accessor(self.index.layout.space, self.index.layout.element, None, 1, self.index.at)
        self.last, self.mask = indices[-1], mask

    def each(self, v: Frame) -> Iterator[tuple[int, Any, Any]]:
        """(element, its address, the lanes that access it), with these lanes active."""
        w = v[0]
        outer, base, start, ref = w.mask, self.index(v), v[self.last], v[self.index.ref]
        shape, strides = self.index.layout.of(ref)
        for i in range(self.count):
            lanes = outer
            if not self.index.bounded:
                lanes = lanes & np.less(start + i, shape[-1]) & np.greater_equal(start + i, 0)
            if self.mask is not None:
                lanes = lanes & v[self.mask][i]
            if lanes.any():
                w.set_mask(lanes)
                yield i, base + i * strides[-1], lanes
        w.set_mask(outer)


@op("vector.transfer_read")
def _transfer_read(d: Decoder, op: Any) -> Any:
    indices, padding, mask = d.named(op, "indices", "padding", "mask")
    transfer = _Transfer(d, op, named(op).base, indices, op.results[0].type, mask)
    r, e = d.result(op), transfer.access.e

    def step(v: Frame) -> None:
        parts = [v[padding]] * transfer.count
        for i, address, lanes in transfer.each(v):
            parts[i] = np.where(lanes, transfer.access.load(v[0], address), v[padding]).astype(e.dtype)
        v[r] = stack(parts, e)

    return step


@op("vector.transfer_write")
def _transfer_write(d: Decoder, op: Any) -> Any:
    value, indices, mask = d.named(op, "valueToStore", "indices", "mask")
    transfer = _Transfer(d, op, named(op).base, indices, named(op).valueToStore.type, mask)

    def step(v: Frame) -> None:
        rows = np.broadcast_to(v[value], (transfer.count, LANES))
        for i, address, _ in transfer.each(v):
            transfer.access.store(v[0], address, rows[i])

    return step
