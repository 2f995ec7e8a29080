"""arith on host scalars, as `nvdsl.ir.arith` says what it means: Python ints that wrap, floats that are rounded."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.driver.host.builder import Builder, Frame, Handler, Step, unsupported
from nvdsl.errors import ArgumentError
from nvdsl.ir import operands as attributes
from nvdsl.ir.arith import CASTS, FLOATS, INTEGERS, Cast, Integer, comparison, float_comparison
from nvdsl.ir.location import where
from nvdsl.values.arith import OVERFLOW
from nvdsl.values.dtypes import DType
from nvdsl.values.elements import ELEMENTS, bit_pattern, from_bits, integer, rounding


def _scalar(op: Any, value: Any) -> DType:
    name = str(value.type)
    if name not in ELEMENTS:
        raise unsupported(op, f"on {name}")
    return ELEMENTS[name]


def _reader(dtype: DType, signed: bool) -> Callable[[int], int]:
    """How an operation reads an integer: as signed (i1 true is -1) or as unsigned."""
    if not signed:
        mask = (1 << dtype.bits) - 1
        return lambda value: value & mask
    return operator.neg if dtype.bits == 1 else operator.pos


def _unary(builder: Builder, op: Any, apply: Callable[[Any], Any]) -> Step:
    source, result = builder.slot(op.operands[0]), builder.define(op.results[0])

    def step(frame: Frame) -> None:
        frame[result] = apply(frame[source])

    return step


def _binary(builder: Builder, op: Any, apply: Callable[[Any, Any], Any]) -> Step:
    (left, right), result = builder.slots(op.operands), builder.define(op.results[0])
    name, line = op.name, where(op)

    def step(frame: Frame) -> None:
        try:
            frame[result] = apply(frame[left], frame[right])
        except ZeroDivisionError:
            if frame is builder.template:
                raise
            raise ArgumentError(
                f"{name}: {frame[left]} divided by zero", where=line, fix="check the divisor before the call"
            ) from None

    return step


def _constant(builder: Builder, op: Any) -> None:
    dtype, value = _scalar(op, op.results[0]), op.attributes["value"].value
    builder.set_constant(op.results[0], float(value) if dtype.is_float else integer(dtype)(int(value)))


def _integer_op(entry: Integer) -> Handler:
    apply = entry.apply

    def handler(builder: Builder, op: Any) -> Step:
        dtype = _scalar(op, op.results[0])
        wrap = integer(dtype)
        if "nsw" in str(op.attributes[OVERFLOW] if OVERFLOW in op.attributes else ""):
            return _binary(builder, op, _fitting(op, dtype, apply))
        if entry.signed is None and not entry.kind:
            return _binary(builder, op, lambda a, b: wrap(apply(a, b)))
        read = _reader(dtype, bool(entry.signed))
        if entry.kind == "division":
            return _binary(builder, op, lambda a, b: wrap(apply(read(a), _nonzero(read(b)))))
        return _binary(builder, op, lambda a, b: wrap(apply(read(a), read(b))))

    return handler


def _fitting(op: Any, dtype: DType, apply: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """What is computed from named extents, where that fits its type."""
    low, high, line, sign = dtype.min, dtype.max, where(op), _SIGNS[op.name]

    def compute(a: int, b: int) -> int:
        found = apply(a, b)
        if low <= found <= high:
            return found
        raise ArgumentError(
            f"{a:,} {sign} {b:,} is {found:,}, beyond {dtype.name}",
            where=line,
            rule="a named extent is an i32, and so is what is computed from it",
            fix="compute in 64 bits: nv.i64(m) * n",
        )

    return compute


_SIGNS = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*"}


def _nonzero(divisor: int) -> int:
    if not divisor:
        raise ZeroDivisionError
    return divisor


def _float_op(function: Callable[[Any, Any], Any]) -> Handler:
    def handler(builder: Builder, op: Any) -> Step:
        round_ = rounding(_scalar(op, op.results[0]))

        def apply(a: float, b: float) -> float:
            with np.errstate(all="ignore"):
                return round_(float(function(np.float64(a), np.float64(b))))

        return _binary(builder, op, apply)

    return handler


def _cmpi(builder: Builder, op: Any) -> Step:
    entry = comparison(attributes.integer(op, "predicate"))
    compare, read = entry.apply, _reader(_scalar(op, op.operands[0]), bool(entry.signed))
    return _binary(builder, op, lambda a, b: int(compare(read(a), read(b))))


def _cmpf(builder: Builder, op: Any) -> Step:
    compare = float_comparison(attributes.integer(op, "predicate"))
    return _binary(builder, op, lambda a, b: int(compare(a, b)))


def _select(builder: Builder, op: Any) -> Step:
    (condition, yes, no), result = builder.slots(op.operands), builder.define(op.results[0])
    if yes in builder.layouts:
        raise unsupported(op, "on memrefs")

    def step(frame: Frame) -> None:
        frame[result] = frame[yes] if frame[condition] else frame[no]

    return step


def _cast(cast: Cast) -> Handler:
    def handler(builder: Builder, op: Any) -> Step:
        source, target = _scalar(op, op.operands[0]), _scalar(op, op.results[0])
        if cast.source == "float":
            return _unary(builder, op, rounding(target) if cast.target == "float" else _to_integer(target, cast.signed))
        read, write = _reader(source, cast.signed), rounding(target) if target.is_float else integer(target)
        return _unary(builder, op, lambda a: write(read(a)))

    return handler


def _to_integer(target: DType, signed: bool) -> Callable[[float], int]:
    """Toward zero; beyond the range the end of it, and 0 for a NaN, as the GPU's cvt."""
    bits, wrap = target.bits, integer(target)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)

    def convert(a: float) -> int:
        if math.isnan(a):
            return 0
        return wrap(int(min(max(a, low), high)))

    return convert


def _negf(builder: Builder, op: Any) -> Step:
    _scalar(op, op.results[0])
    return _unary(builder, op, operator.neg)


def _bitcast(builder: Builder, op: Any) -> Step:
    source, target = _scalar(op, op.operands[0]), _scalar(op, op.results[0])
    bits = bit_pattern(source)
    read = from_bits(target) if target.is_float else integer(target)
    return _unary(builder, op, lambda a: read(bits(a)))


HANDLERS: dict[str, Handler] = {
    "arith.constant": _constant,
    **{name: _integer_op(entry) for name, entry in INTEGERS.items()},
    **{name: _float_op(function) for name, function in FLOATS.items()},
    **{name: _cast(cast) for name, cast in CASTS.items()},
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _select,
    "arith.negf": _negf,
    "arith.bitcast": _bitcast,
}
