"""arith on host scalars: integers wrap at their width, floats round to their type."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from nvdsl.driver.host.builder import Builder, Frame, Handler, Step, unsupported
from nvdsl.errors import ArgumentError
from nvdsl.ir.location import where
from nvdsl.values.dtypes import DType
from nvdsl.values.elements import ELEMENTS, bit_pattern, from_bits, integer, rounding


def _trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _float_div(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _float_rem(a: float, b: float) -> float:
    return math.fmod(a, b) if b and math.isfinite(a) else math.nan


def _propagate(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    """minimumf, maximumf: NaN where either operand is NaN; -0.0 is less than 0.0."""

    def apply(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return math.nan
        if a == b == 0.0:
            return pick(math.copysign(1.0, a), math.copysign(1.0, b)) * 0.0
        return pick(a, b)

    return apply


def _ignore_nan(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    """minnumf, maxnumf: the other operand where one is NaN."""

    def apply(a: float, b: float) -> float:
        return b if math.isnan(a) else a if math.isnan(b) else pick(a, b)

    return apply


# name -> (function of two Python ints, whether they are read as signed)
_INTEGER: dict[str, tuple[Callable[[int, int], int], bool]] = {
    "addi": (operator.add, True),
    "subi": (operator.sub, True),
    "muli": (operator.mul, True),
    "divsi": (_trunc_div, True),
    "divui": (operator.floordiv, False),
    "remsi": (lambda a, b: a - b * _trunc_div(a, b), True),
    "remui": (operator.mod, False),
    "floordivsi": (operator.floordiv, True),
    "ceildivsi": (lambda a, b: -(-a // b), True),
    "ceildivui": (lambda a, b: -(-a // b), False),
    "andi": (operator.and_, True),
    "ori": (operator.or_, True),
    "xori": (operator.xor, True),
    "shli": (lambda a, b: a << min(b, 64), False),
    "shrui": (lambda a, b: a >> min(b, 64), False),
    "minsi": (min, True),
    "maxsi": (max, True),
    "minui": (min, False),
    "maxui": (max, False),
}
_FLOAT: dict[str, Callable[[float, float], float]] = {
    "addf": operator.add,
    "subf": operator.sub,
    "mulf": operator.mul,
    "divf": _float_div,
    "remf": _float_rem,
    "minimumf": _propagate(min),
    "maximumf": _propagate(max),
    "minnumf": _ignore_nan(min),
    "maxnumf": _ignore_nan(max),
}
_ORDER = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
_CMPI = tuple((f, True) for f in _ORDER) + tuple((f, False) for f in _ORDER[2:])
_CMPF = (operator.eq, operator.gt, operator.ge, operator.lt, operator.le, operator.ne)


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


def _integer_op(function: Callable[[int, int], int], signed: bool) -> Handler:
    def handler(builder: Builder, op: Any) -> Step:
        dtype = _scalar(op, op.results[0])
        read, wrap = _reader(dtype, signed), integer(dtype)
        return _binary(builder, op, lambda a, b: wrap(function(read(a), read(b))))

    return handler


def _shrsi(builder: Builder, op: Any) -> Step:
    dtype = _scalar(op, op.results[0])
    value, amount, wrap = _reader(dtype, True), _reader(dtype, False), integer(dtype)
    return _binary(builder, op, lambda a, b: wrap(value(a) >> min(amount(b), 64)))


def _float_op(function: Callable[[float, float], float]) -> Handler:
    def handler(builder: Builder, op: Any) -> Step:
        round_ = rounding(_scalar(op, op.results[0]))
        return _binary(builder, op, lambda a, b: round_(function(a, b)))

    return handler


def _cmpi(builder: Builder, op: Any) -> Step:
    compare, signed = _CMPI[op.attributes["predicate"].value]
    read = _reader(_scalar(op, op.operands[0]), signed)
    return _binary(builder, op, lambda a, b: int(compare(read(a), read(b))))


def _cmpf(builder: Builder, op: Any) -> Step:
    """Predicates false, 6 ordered ones, ord, 6 unordered ones, uno, true, in the dialect's order."""
    predicate = op.attributes["predicate"].value
    if predicate in (0, 15):
        return _binary(builder, op, lambda a, b: int(predicate == 15))
    ordered_result = predicate < 8
    if predicate in (7, 14):
        return _binary(builder, op, lambda a, b: int((math.isnan(a) or math.isnan(b)) is not ordered_result))
    compare = _CMPF[(predicate - 1) % 7]

    def apply(a: float, b: float) -> int:
        if math.isnan(a) or math.isnan(b):
            return int(not ordered_result)
        return int(compare(a, b))

    return _binary(builder, op, apply)


def _select(builder: Builder, op: Any) -> Step:
    (condition, yes, no), result = builder.slots(op.operands), builder.define(op.results[0])
    if yes in builder.layouts:
        raise unsupported(op, "on memrefs")

    def step(frame: Frame) -> None:
        frame[result] = frame[yes] if frame[condition] else frame[no]

    return step


def _integer_cast(signed: bool) -> Handler:
    """index_cast, extsi, trunci (signed) and index_castui, extui: read at one width, wrap at the other."""

    def handler(builder: Builder, op: Any) -> Step:
        read = _reader(_scalar(op, op.operands[0]), signed)
        wrap = integer(_scalar(op, op.results[0]))
        return _unary(builder, op, lambda a: wrap(read(a)))

    return handler


def _to_float(signed: bool) -> Handler:
    def handler(builder: Builder, op: Any) -> Step:
        read = _reader(_scalar(op, op.operands[0]), signed)
        round_ = rounding(_scalar(op, op.results[0]))
        return _unary(builder, op, lambda a: round_(float(read(a))))

    return handler


def _to_integer(builder: Builder, op: Any) -> Step:
    wrap = integer(_scalar(op, op.results[0]))
    return _unary(builder, op, lambda a: wrap(int(a)) if math.isfinite(a) else 0)


def _float_cast(builder: Builder, op: Any) -> Step:
    return _unary(builder, op, rounding(_scalar(op, op.results[0])))


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
    **{f"arith.{name}": _integer_op(*entry) for name, entry in _INTEGER.items()},
    **{f"arith.{name}": _float_op(function) for name, function in _FLOAT.items()},
    "arith.shrsi": _shrsi,
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _select,
    "arith.index_cast": _integer_cast(signed=True),
    "arith.extsi": _integer_cast(signed=True),
    "arith.trunci": _integer_cast(signed=True),
    "arith.index_castui": _integer_cast(signed=False),
    "arith.extui": _integer_cast(signed=False),
    "arith.sitofp": _to_float(signed=True),
    "arith.uitofp": _to_float(signed=False),
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.extf": _float_cast,
    "arith.truncf": _float_cast,
    "arith.negf": _negf,
    "arith.bitcast": _bitcast,
}
