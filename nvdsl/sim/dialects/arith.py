"""arith: integers in two's complement, floats rounded to their type after each op. llvm's arithmetic is the same."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.mlir import ir
from nvdsl.sim.decode import Decoder, Frame, op
from nvdsl.sim.values import (
    Element,
    column,
    element,
    integer_op,
    is_uniform,
    scalar,
    select,
    trunc_div,
    trunc_rem,
    wrap,
)
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
    f, is_unsigned = _COMPARE[ir.IntegerAttr(op.attributes["predicate"]).value]
    e = element(op.operands[0].type)
    if is_unsigned:
        return binary(d, op, lambda x, y: f(as_unsigned(x, e), as_unsigned(y, e)))
    return binary(d, op, f)


# --- floats


def _pick(choose: Any) -> Binary:
    """minimum/maximum: of NumPy, which hands NaN on; or minnum/maxnum, which drop it."""

    def apply(x: Any, y: Any) -> Any:
        kind = x.dtype
        if kind.kind == "V" or kind.itemsize == 2:  # ml_dtypes' have no fmin
            return choose(x.astype(np.float32), y.astype(np.float32)).astype(kind)
        return choose(x, y)

    return apply


_FLOAT: dict[str, Binary] = {
    "arith.addf": operator.add, "llvm.fadd": operator.add, "arith.subf": operator.sub, "llvm.fsub": operator.sub,
    "arith.mulf": operator.mul, "llvm.fmul": operator.mul, "arith.divf": operator.truediv,
    "llvm.fdiv": operator.truediv, "arith.remf": np.fmod,
    "arith.minnumf": _pick(np.fmin), "arith.maxnumf": _pick(np.fmax),
    "llvm.intr.minnum": _pick(np.fmin), "llvm.intr.maxnum": _pick(np.fmax),
    "arith.minimumf": _pick(np.minimum), "arith.maximumf": _pick(np.maximum),
    "llvm.intr.minimum": _pick(np.minimum), "llvm.intr.maximum": _pick(np.maximum),
}  # fmt: skip

for _float_name, _f in _FLOAT.items():
    op(_float_name)(functools.partial(binary, f=_f))


@op("arith.negf", "llvm.fneg")
def _negf(d: Decoder, op: Any) -> Any:
    return unary(d, op, operator.neg)


def _float_compare(predicate: int) -> Binary:
    """arith.cmpf's 16 predicates: bit 0 equal, bit 1 greater, bit 2 less, bit 3 unordered (LLVM's encoding)."""
    ordered = {0: None, 1: operator.eq, 2: operator.gt, 3: operator.ge, 4: operator.lt, 5: operator.le, 6: operator.ne}
    f, unordered = ordered.get(predicate & 7), predicate >= 8

    def apply(x: Any, y: Any) -> Any:
        nan = np.isnan(x) | np.isnan(y)
        if f is None:
            r = np.zeros_like(nan) if predicate & 7 == 0 else ~nan
        else:
            r = f(x, y) & ~nan
        r = r | nan if unordered else r
        return r if isinstance(r, np.ndarray) and r.ndim else bool(r)

    return apply


@op("arith.cmpf", "llvm.fcmp")
def _cmpf(d: Decoder, op: Any) -> Any:
    return binary(d, op, _float_compare(ir.IntegerAttr(op.attributes["predicate"]).value))


def fma(x: Any, y: Any, z: Any) -> Any:
    """One rounding: exact in f64 for types up to f32, but for rare double rounding of the sum."""
    kind = z.dtype
    if kind == np.float64:
        return x * y + z
    wide = np.asarray(x, np.float64) * np.asarray(y, np.float64) + np.asarray(z, np.float64)
    r = wide.astype(kind)
    return r if r.ndim else r[()]


@op("math.fma", "llvm.intr.fma", "vector.fma", "llvm.intr.fmuladd")
def _fma(d: Decoder, op: Any) -> Any:
    a, b, c = d.operands(op)
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = fma(v[a], v[b], v[c])

    return step


# --- conversions


def _convert(d: Decoder, op: Any, f: Callable[[Any, Element, Element], Any]) -> Any:
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
        return as_unsigned(x, source).astype(target.dtype)
    return wrap(as_unsigned(x, source), target.bits)


@op("arith.trunci", "llvm.trunc", "arith.extsi", "llvm.sext", "arith.index_cast")
def _signed(d: Decoder, op: Any) -> Any:
    return _convert(d, op, _resize)


@op("arith.extui", "llvm.zext", "arith.index_castui")
def _unsigned(d: Decoder, op: Any) -> Any:
    return _convert(d, op, _extend_unsigned)


@op("arith.extf", "arith.truncf", "llvm.fpext", "llvm.fptrunc")
def _float_to_float(d: Decoder, op: Any) -> Any:
    return _convert(d, op, lambda x, s, t: x.astype(t.dtype))


@op("arith.sitofp", "llvm.sitofp")
def _signed_to_float(d: Decoder, op: Any) -> Any:
    return _convert(d, op, lambda x, s, t: x.astype(t.dtype) if isinstance(x, np.ndarray) else t.dtype.type(x))


@op("arith.uitofp", "llvm.uitofp")
def _unsigned_to_float(d: Decoder, op: Any) -> Any:
    def f(x: Any, s: Element, t: Element) -> Any:
        x = as_unsigned(x, s)
        return x.astype(t.dtype) if isinstance(x, np.ndarray) else t.dtype.type(x)

    return _convert(d, op, f)


@op("arith.fptosi", "arith.fptoui", "llvm.fptosi", "llvm.fptoui")
def _float_to_int(d: Decoder, op: Any) -> Any:
    """Out of range is undefined: cvt saturates, NaN gives 0."""
    is_unsigned = op.name.endswith("ui")

    def f(x: Any, s: Element, t: Element) -> Any:
        wide = np.trunc(np.nan_to_num(np.asarray(x, np.float64), nan=0.0))
        low = 0 if is_unsigned else -(1 << (t.bits - 1))
        high = (1 << t.bits if is_unsigned else 1 << (t.bits - 1)) - 1
        whole = [min(max(int(n), low), high) for n in np.clip(wide, -1e30, 1e30).reshape(-1)]
        r = np.array([wrap(n, t.bits) for n in whole], t.dtype).reshape(wide.shape)
        return r if r.ndim else r.item()

    return _convert(d, op, f)


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
    r = np.ascontiguousarray(np.moveaxis(a, 0, -1)).view(target.dtype)
    r = np.moveaxis(r, -1, 0)
    if to_vector:
        return r
    return scalar(r, target) if is_uniform(r) else np.ascontiguousarray(r[0])


# --- the rest


@op("arith.select", "llvm.select")
def _select(d: Decoder, op: Any) -> Any:
    c, a, b = d.operands(op)
    r = d.result(op)

    def step(v: Frame) -> None:
        condition = v[c]
        if condition.__class__ is bool:
            v[r] = v[a] if condition else v[b]
        else:
            v[r] = select(condition, v[a], v[b])

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

