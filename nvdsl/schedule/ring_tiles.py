"""Tiles that are copied in each turn, and where they come from: what `hopper` builds its ring of."""

from __future__ import annotations

from typing import Any

from nvdsl.ir.operands import integers
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith


class Tile:
    """A tile that is copied in each turn: the array that it is a part of, and where; its slots in shared memory."""

    def __init__(self, copy: Any, start: int, stages: int) -> None:
        self.source, self.buffer = copy.operands
        self.rows, self.columns = self.buffer.type.shape
        self.size = self.rows * self.columns * self.buffer.type.element_type.width // 8
        self.start, self.end = start, start + stages * self.size
        self.map: Any = None


def constant_of(value: Any) -> float | None:
    """The float that a value is known to be."""
    made = defining(value)
    return ir.FloatAttr(made.attributes["value"]).value if made is not None and made.name == "arith.constant" else None


def loop_around(product: Any) -> Any:
    parent = product.operation.parent
    return parent.operation if parent.name == "scf.for" else None


def number(n: int) -> Any:
    return arith.constant(ir.IndexType.get(), n)


def equal(value: Any, n: int) -> Any:
    return arith.cmpi(arith.CmpIPredicate.eq, value, number(n))


def chain(value: Any) -> list[Any]:
    """A view, the one that it is a view of, and so on to the array."""
    found = [value]
    while (made := defining(found[-1])) is not None and made.name == "memref.subview":
        found.append(made.operands[0])
    return found


def offsets(value: Any) -> tuple[Any, list[list[Any]]]:
    """The array that a view is a part of, and the terms of its start in each axis: values and integers."""
    sums: list[list[Any]] = [[], []]
    *views, array = chain(value)
    for view in views:
        made = view.owner.operation
        dynamic = iter(list(made.operands)[1:])
        for terms, offset in zip(sums, integers(made, "static_offsets"), strict=True):
            terms.append(next(dynamic) if offset == ir.ShapedType.get_dynamic_size() else offset)
    return array, sums
