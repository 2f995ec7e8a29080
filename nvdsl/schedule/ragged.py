"""Extents that are no multiple of a tile: the payload's arrays are rounded up, and remember what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.driver.array_spec import packed_strides
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, vector
from nvdsl.schedule.rewrite import key
from nvdsl.schedule.work import CONTRACTIONS, Work

EXTENTS = "nvdsl.extents"
"""An attribute of the function: the shape that each argument really has, in order."""

_KNOWN = (*CONTRACTIONS, "linalg.fill", "linalg.generic", "tensor.empty", "func.return")


def round_up(work: Work, extents: Sequence[int]) -> None:
    """Make ``extents`` (of m, n and k) those of the product, and of all that is computed with it."""
    (function,) = work.find("func.func")
    arguments = list(function.regions[0].blocks[0].arguments)
    real = [list(v.type.shape) for v in arguments]
    shapes: dict[int, list[int]] = {}
    values = {key(v): v for v in arguments}
    for op in work.find(*_KNOWN):
        values |= {key(v): v for v in (*op.operands, *op.results) if isinstance(v.type, ir.ShapedType)}
    before = -1
    while len(shapes) != before:
        before = len(shapes)
        for op in work.find(*CONTRACTIONS, "linalg.fill", "linalg.generic"):
            _propagate(op, shapes, list(extents) if op.name in CONTRACTIONS else None)
    grown = {k: shape for k, shape in shapes.items() if shape != list(values[k].type.shape)}
    for k in grown:
        others = [use.owner.operation for use in values[k].uses] + [defining(values[k])]
        for op in others:
            if op is not None and op.name not in _KNOWN:
                work.refuse(
                    f"{op.name} of an array whose extent is no multiple of its tile",
                    "arrays are rounded up to whole tiles through linalg.fill and elementwise linalg.generic alone",
                    "choose tiles that divide the extents",
                )
        if not _is_packed(values[k].type):
            work.refuse(f"{values[k].type}, whose extents are no multiples of the tiles",
                        "arrays that are rounded up have their elements one behind the other",
                        "choose tiles that divide the extents")  # fmt: skip
    for k, shape in grown.items():
        kind = type(values[k].type)
        element = values[k].type.element_type
        values[k].set_type(kind.get(shape, element))
    (end,) = work.find("func.return")
    types = ir.FunctionType.get([v.type for v in arguments], [v.type for v in end.operands])
    function.attributes["function_type"] = ir.TypeAttr.get(types)
    function.attributes[EXTENTS] = ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(shape) for shape in real])


def _is_packed(type: Any) -> bool:
    """Whether a type says nothing of strides, or that elements are one behind the other."""
    if not isinstance(type, ir.MemRefType):
        return True
    strides, offset = ir.MemRefType(type).get_strides_and_offset()
    return tuple(strides) == tuple(packed_strides(tuple(type.shape))) and offset == 0


def _propagate(op: Any, shapes: dict[int, list[int]], product: list[int] | None) -> None:
    """Add the shapes that follow from an operation's: of its operands and results, by their indexing maps."""
    operands, results = list(op.operands), list(op.results)
    if op.name == "linalg.fill":
        pair = [operands[1], *results]
        known = [shapes[key(v)] for v in pair if key(v) in shapes]
        shapes.update({key(v): known[0] for v in pair if known})
        return
    maps = [ir.AffineMapAttr(one).value for one in ir.ArrayAttr(op.attributes["indexing_maps"])]
    if any(not isinstance(one, ir.AffineDimExpr) for map in maps for one in map.results):
        return
    places = [[ir.AffineDimExpr(one).position for one in map.results] for map in maps]
    sides = [*zip(operands, places, strict=True), *zip(results, places[len(operands) - len(results) :], strict=True)]
    extents: dict[int, int] = {}
    for value, dims in sides:
        extents |= dict(zip(dims, value.type.shape, strict=True))
    if product is not None:
        extents |= dict(zip(sorted(extents)[-3:], product, strict=True))
    elif not any(key(value) in shapes for value, _ in sides):
        return
    for value, dims in sides:
        if product is None and key(value) in shapes:
            extents |= dict(zip(dims, shapes[key(value)], strict=True))
    for value, dims in sides:
        shapes[key(value)] = [extents[dim] for dim in dims]


def real_shapes(work: Work) -> list[tuple[Any, list[int]]]:
    """Each argument that has been rounded up, and the shape that it has."""
    (function,) = work.find("func.func")
    if EXTENTS not in function.attributes:
        return []
    arguments = function.regions[0].blocks[0].arguments
    shapes = [list(ir.DenseI64ArrayAttr(one)) for one in ir.ArrayAttr(function.attributes[EXTENTS])]
    return [(v, shape) for v, shape in zip(arguments, shapes, strict=True) if shape != list(v.type.shape)]


def inside(indices: Sequence[Any], extents: Sequence[int], size: Sequence[int] = ()) -> Any:
    """Whether all of a part of ``size`` (else one element) that starts at ``indices`` is in an array."""
    index, bit = ir.IndexType.get(), arith.constant(ir.IntegerType.get_signless(1), 1)
    for place, extent, more in zip(indices, extents, size or [1] * len(indices), strict=True):
        last = arith.addi(place, arith.constant(index, more - 1)) if more > 1 else place
        bit = arith.andi(bit, arith.cmpi(arith.CmpIPredicate.slt, last, arith.constant(index, extent)))
    return bit


def zero_of(type: Any) -> Any:
    """0 of a float's type, or a vector of zeros."""
    if isinstance(type, ir.VectorType):
        return vector.broadcast(type, zero_of(type.element_type))
    return arith.constant(type, ir.FloatAttr.get(type, 0.0))


def inside_or_zero(value: Any, indices: Sequence[Any], extents: Sequence[int]) -> Any:
    """``value``, of an element or of neighbours that are in an array as a whole or not at all, or 0 outside."""
    return arith.select(inside(indices, extents), value, zero_of(value.type))


def real_shape(work: Work, array: Any) -> list[int]:
    """The shape that an array, or a view of one, has in memory."""
    while (made := defining(array)) is not None and made.name == "memref.subview":
        array = made.operands[0]
    found = {key(v): shape for v, shape in real_shapes(work)}
    return found.get(key(array), list(array.type.shape))
