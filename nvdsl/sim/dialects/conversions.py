"""Conversions between element types (arith, llvm), and reading bits as another type."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.ir.arith import CASTS, Cast
from nvdsl.mlir import ir
from nvdsl.sim import numbers
from nvdsl.sim.decode import Decoder, op
from nvdsl.sim.dialects.arith import names, unary
from nvdsl.sim.values import Element, column, element, is_uniform, scalar, wrap
from nvdsl.sim.values import unsigned as as_unsigned

Conversion = Callable[[Any, Element, Element], Any]
"""Of a value, its type, and the type that it gets."""


def _convert(d: Decoder, op: Any, f: Conversion) -> Any:
    source, target = element(op.operands[0].type), element(op.results[0].type)
    return unary(d, op, lambda x: f(x, source, target))


def _resize(x: Any, source: Element, target: Element) -> Any:
    """A signed integer in another width."""
    if isinstance(x, np.ndarray):
        if target.bits == 1:
            return (x & 1).astype(np.bool_)
        return -x.astype(target.dtype) if source.bits == 1 else x.astype(target.dtype)
    if source.bits == 1:
        return -int(x)
    return wrap(x, target.bits)


def _extend_unsigned(x: Any, source: Element, target: Element) -> Any:
    if isinstance(x, np.ndarray):
        return _resize(x, source, target) if target.bits == 1 else as_unsigned(x, source).astype(target.dtype)
    return wrap(as_unsigned(x, source), target.bits)


def to_float(x: Any, target: str) -> Any:
    """A number, or numbers, as the float type of that name, rounded as the hardware does (see `numbers.convert`)."""
    r = numbers.convert(np.asarray(x), target)
    return r if r.ndim else r[()]


def _integer_to_float(signed: bool) -> Conversion:
    def convert(x: Any, source: Element, target: Element) -> Any:
        if not signed:
            x = as_unsigned(x, source)
        elif source.bits == 1:  # true is -1
            x = -x.astype(np.int8) if isinstance(x, np.ndarray) else -int(x)
        return to_float(x, target.name)

    return convert


def _float_to_integer(signed: bool) -> Conversion:
    """Out of range is undefined: cvt saturates, NaN gives 0."""
    sign = "i" if signed else "u"

    def convert(x: Any, source: Element, target: Element) -> Any:
        r = numbers.convert(np.asarray(x), f"{sign}{target.bits}").view(target.dtype)
        return r if r.ndim else r.item()

    return convert


def _conversion(cast: Cast) -> Conversion:
    if cast.source == "integer":
        if cast.target == "float":
            return _integer_to_float(cast.signed)
        return _resize if cast.signed else _extend_unsigned
    return _float_to_integer(cast.signed) if cast.target == "integer" else lambda x, s, t: to_float(x, t.name)


for _name, _cast in CASTS.items():
    op(*names(_name))(functools.partial(_convert, f=_conversion(_cast)))


@op("arith.bitcast", "llvm.bitcast")
def _bitcast(d: Decoder, op: Any) -> Any:
    try:
        source, target = element(op.operands[0].type), element(op.results[0].type)
    except ValueError:  # pointers, structs: the same value
        d.alias(op.results[0], op.operands[0])
        return None
    from_vector = isinstance(op.operands[0].type, ir.VectorType)
    to_vector = isinstance(op.results[0].type, ir.VectorType)
    return unary(d, op, lambda x: bitcast(x, source, target, from_vector, to_vector))


def _elements_last(a: Any) -> Any:
    """The first axis of a vector's array last. (The transpose, where there are two: `moveaxis` is ten times slower.)"""
    return a.T if a.ndim == 2 else np.moveaxis(a, 0, -1)


def bitcast(x: Any, source: Element, target: Element, from_vector: bool, to_vector: bool) -> Any:
    """The same bits; the elements of a vector that a wider one holds are its low bits first."""
    if source.dtype == target.dtype and from_vector == to_vector:
        return x
    if not from_vector and not to_vector:
        if isinstance(x, np.ndarray):
            return x.view(target.dtype)
        return scalar(np.array([x], source.dtype).view(target.dtype), target)
    a = column(x, source)
    a = a if from_vector else a[None]
    r = np.ascontiguousarray(_elements_last(a)).view(target.dtype)
    r = r.T if r.ndim == 2 else np.moveaxis(r, -1, 0)
    if to_vector:
        return r
    return scalar(r, target) if is_uniform(r) else np.ascontiguousarray(r[0])
