"""arith: integers in two's complement, floats rounded to their type after each op. llvm's arithmetic is the same.

Conversions are in `conversions`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import integer
from nvdsl.mlir import ir
from nvdsl.sim import numbers, operands
from nvdsl.sim.decode import Decoder, Frame, maker, op
from nvdsl.sim.values import Element, element, integer_op, integer_type, select, trunc_div, trunc_rem, wrap
from nvdsl.sim.values import unsigned as as_unsigned

Binary = Callable[[Any, Any], Any]


def binary(d: Decoder, op: Any, f: Binary) -> Any:
    a, b = d.operands(op)
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = f(v[a], v[b])

    return step


def unary(d: Decoder, op: Any, f: Callable[[Any], Any]) -> Any:
    (a,) = d.operands(op)[:1]
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = f(v[a])

    return step


# --- integers


def _shift(f: Binary, e: Element) -> Binary:
    """Shift counts beyond the width are undefined: masked here."""

    def apply(x: Any, y: Any) -> Any:
        return f(x, y & (max(e.bits, 2) - 1) if y.__class__ is int else y)

    return apply


def on_unsigned(f: Binary, e: Element) -> Binary:
    """``f`` on the operands read as unsigned, its result read as signed."""

    def apply(x: Any, y: Any) -> Any:
        if e.bits == 1:
            return f(x, y)
        x, y = as_unsigned(x, e), as_unsigned(y, e)
        r = f(x, y)
        return wrap(r, e.bits) if r.__class__ is int else r.view(e.dtype)

    return apply


def _divide(x: Any, y: Any) -> Any:
    if x.__class__ is int and y.__class__ is int:
        return x // y if y else 0
    return x // y


def _remainder(x: Any, y: Any) -> Any:
    if x.__class__ is int and y.__class__ is int:
        return x % y if y else 0
    return x % y


def _min(x: Any, y: Any) -> Any:
    return min(x, y) if x.__class__ is int and y.__class__ is int else np.minimum(x, y)


def _max(x: Any, y: Any) -> Any:
    return max(x, y) if x.__class__ is int and y.__class__ is int else np.maximum(x, y)


_SIGNED: dict[str, Binary] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "minsi": _min, "maxsi": _max, "divsi": trunc_div, "remsi": trunc_rem,
    "floordivsi": _divide,
}  # fmt: skip
_UNSIGNED: dict[str, Binary] = {"divui": _divide, "remui": _remainder, "minui": _min, "maxui": _max}
_SHIFTS: dict[str, tuple[Binary, bool]] = {
    "shl": (operator.lshift, False), "shrsi": (operator.rshift, False), "shrui": (operator.rshift, True),
}  # fmt: skip

_NAMES = {
    "add": ("arith.addi", "llvm.add"), "sub": ("arith.subi", "llvm.sub"), "mul": ("arith.muli", "llvm.mul"),
    "and": ("arith.andi", "llvm.and"), "or": ("arith.ori", "llvm.or"), "xor": ("arith.xori", "llvm.xor"),
    "minsi": ("arith.minsi", "llvm.intr.smin"), "maxsi": ("arith.maxsi", "llvm.intr.smax"),
    "minui": ("arith.minui", "llvm.intr.umin"), "maxui": ("arith.maxui", "llvm.intr.umax"),
    "divsi": ("arith.divsi", "llvm.sdiv"), "remsi": ("arith.remsi", "llvm.srem"),
    "divui": ("arith.divui", "llvm.udiv"), "remui": ("arith.remui", "llvm.urem"),
    "floordivsi": ("arith.floordivsi",), "shl": ("arith.shli", "llvm.shl"),
    "shrsi": ("arith.shrsi", "llvm.ashr"), "shrui": ("arith.shrui", "llvm.lshr"),
}  # fmt: skip


_DIVISIONS = {"divsi": True, "remsi": True, "floordivsi": True, "divui": False, "remui": False}
"""Whether they are signed."""


def _checked(name: str, op: Any, e: Element, r: int, a: int, b: int, f: Binary) -> Any:
    """A division or a shift, whose operands are looked at. Who only selects among results need not use this one: a
    shift too far is harmless there."""
    at = where(op)
    if name in _DIVISIONS:
        is_signed = _DIVISIONS[name]

        def divide(v: Frame) -> None:
            x, y = v[a], v[b]
            if v[0].machine.checks:
                operands.check_division(v[0], x, y, e, is_signed, op_name, at)
            v[r] = f(x, y)

        op_name = op.name
        return divide

    what, selected = op.name, all(use.owner.name.endswith("select") for use in op.results[0].uses)

    def shift(v: Frame) -> None:
        x, y = v[a], v[b]
        if v[0].machine.checks and not selected:
            operands.check_shift(v[0], y, e, what, at)
        v[r] = f(x, y)

    return shift


def _is_safe(name: str, op: Any, e: Element) -> bool:
    """Whether the second operand is a constant that suits."""
    owner = maker(op.operands[1])
    if owner is None or owner.name not in ("arith.constant", "llvm.mlir.constant"):
        return False
    value = owner.attributes["value"]
    if not isinstance(value, ir.IntegerAttr):
        return False
    return value.value not in (0, -1) if name in _DIVISIONS else 0 <= value.value < e.bits


def _integer_handler(name: str) -> Any:
    def handler(d: Decoder, op: Any) -> Any:
        e = element(op.results[0].type)
        if name in _SIGNED:
            f = _SIGNED[name]
            if e.bits == 1 and name in ("add", "sub", "mul"):
                f = operator.and_ if name == "mul" else operator.xor
            elif name in ("add", "sub", "mul", "divsi"):
                f = integer_op(f, e.bits)
        elif name in _UNSIGNED:
            f = on_unsigned(_UNSIGNED[name], e)
        else:
            f, is_unsigned = _SHIFTS[name]
            f = _shift(on_unsigned(f, e) if is_unsigned else integer_op(f, e.bits), e)
        is_vector = isinstance(op.results[0].type, ir.VectorType)
        if (name in _DIVISIONS or name in _SHIFTS) and not is_vector and e.bits > 1 and not _is_safe(name, op, e):
            a, b = d.operands(op)
            return _checked(name, op, e, d.result(op), a, b, f)
        return binary(d, op, f)

    return handler


for _name, _ops in _NAMES.items():
    op(*_ops)(_integer_handler(_name))

_COMPARE: list[tuple[Binary, bool]] = [
    (operator.eq, False), (operator.ne, False), (operator.lt, False), (operator.le, False), (operator.gt, False),
    (operator.ge, False), (operator.lt, True), (operator.le, True), (operator.gt, True), (operator.ge, True),
]  # fmt: skip


@op("arith.cmpi", "llvm.icmp")
def _cmpi(d: Decoder, op: Any) -> Any:
    f, is_unsigned = _COMPARE[integer(op, "predicate")]
    e = element(op.operands[0].type)
    if is_unsigned:
        return binary(d, op, lambda x, y: f(as_unsigned(x, e), as_unsigned(y, e)))
    return binary(d, op, f)


# --- floats


def _number(kind: str) -> Binary:
    """minnum and maxnum: beside a NaN the number, and -0 is less than +0."""

    def apply(x: Any, y: Any) -> Any:
        r = numbers.reduction(kind, *np.broadcast_arrays(np.asarray(x), np.asarray(y)))
        return r if r.ndim else r[()]

    return apply


_FLOAT: dict[str, Binary] = {
    "arith.addf": operator.add, "llvm.fadd": operator.add, "arith.subf": operator.sub, "llvm.fsub": operator.sub,
    "arith.mulf": operator.mul, "llvm.fmul": operator.mul, "arith.divf": operator.truediv,
    "llvm.fdiv": operator.truediv, "arith.remf": np.fmod,
    "arith.minnumf": _number("min"), "arith.maxnumf": _number("max"),
    "llvm.intr.minnum": _number("min"), "llvm.intr.maxnum": _number("max"),
    "arith.minimumf": np.minimum, "arith.maximumf": np.maximum,
    "llvm.intr.minimum": np.minimum, "llvm.intr.maximum": np.maximum,
}  # fmt: skip

for _float_name, _f in _FLOAT.items():
    op(_float_name)(functools.partial(binary, f=_f))


@op("arith.negf", "llvm.fneg")
def _negf(d: Decoder, op: Any) -> Any:
    return unary(d, op, operator.neg)


_ORDERED: tuple[Any, ...] = (operator.eq, operator.gt, operator.ge, operator.lt, operator.le, operator.ne)


def _float_compare(predicate: int) -> Binary:
    """arith.cmpf's predicates: 0 false; 1 to 6 one of `_ORDERED`, and no NaN; 7 no NaN; 8 to 13 one of them, or a NaN;
    14 a NaN; 15 true."""
    never, unordered = predicate in (0, 14), predicate >= 8
    f = _ORDERED[predicate - (8 if unordered else 1)] if predicate not in (0, 7, 14, 15) else None

    def apply(x: Any, y: Any) -> Any:
        nan = np.isnan(x) | np.isnan(y)
        holds = np.full_like(nan, not never) if f is None else f(x, y)
        r = holds | nan if unordered else holds & ~nan
        return r if isinstance(r, np.ndarray) and r.ndim else bool(r)

    return apply


@op("arith.cmpf", "llvm.fcmp")
def _cmpf(d: Decoder, op: Any) -> Any:
    return binary(d, op, _float_compare(integer(op, "predicate")))


def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once."""
    r = numbers.fma(*np.broadcast_arrays(*map(np.asarray, (x, y, z))))
    return r if r.ndim else r[()]


@op("math.fma", "llvm.intr.fma", "vector.fma", "llvm.intr.fmuladd")
def _fma(d: Decoder, op: Any) -> Any:
    a, b, c = d.operands(op)
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = fma(v[a], v[b], v[c])

    return step


# --- the rest


@op("arith.select", "llvm.select")
def _select(d: Decoder, op: Any) -> Any:
    c, a, b = d.operands(op)
    r, kind = d.result(op), integer_type(op.results[0].type)

    def step(v: Frame) -> None:
        condition = v[c]
        if condition.__class__ is bool:
            v[r] = v[a] if condition else v[b]
        else:
            v[r] = select(condition, v[a], v[b], kind)

    return step


@op("arith.constant", "llvm.mlir.constant")
def _constant(d: Decoder, op: Any) -> None:
    d.define(op.results[0], constant(op.attributes["value"], op.results[0].type))


def constant(attribute: Any, type: Any) -> Any:
    """The value of a constant attribute for a result of ``type``."""
    e = element(type)
    if isinstance(attribute, ir.DenseElementsAttr):
        return _dense(attribute, e, ir.VectorType(type).shape)
    if isinstance(attribute, ir.BoolAttr):
        return attribute.value
    if isinstance(attribute, ir.FloatAttr):
        return e.dtype.type(attribute.value)
    return wrap(ir.IntegerAttr(attribute).value, e.bits)


def _dense(attribute: Any, e: Element, shape: Any) -> Any:
    if attribute.is_splat:
        one = constant(attribute.get_splat_value(), e.name)
        return np.full((*shape, 1), one, e.dtype)
    if e.is_float:
        found = [ir.FloatAttr(x).value if isinstance(x, ir.Attribute) else x for x in attribute]
    else:
        found = [ir.IntegerAttr(x).value if isinstance(x, ir.Attribute) else x for x in attribute]
    return np.array(found).astype(e.dtype).reshape((*shape, 1))

