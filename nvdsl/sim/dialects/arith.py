"""arith and llvm's arithmetic on the values of a warp, as `nvdsl.ir.arith` says what they mean.

Conversions are in `conversions`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.ir.arith import FLOATS, INTEGERS, OF_LLVM, Binary, Integer, comparison, float_comparison
from nvdsl.ir.indices import SIGNS, is_place, is_stored_wide
from nvdsl.ir.location import where
from nvdsl.ir.operands import constant_value, integer
from nvdsl.ir.walk import defining
from nvdsl.mlir import ir
from nvdsl.sim import numbers, operands, wrapped
from nvdsl.sim.decode import Decoder, Frame, op
from nvdsl.sim.values import Element, element, integer_op, integer_type, select, wrap
from nvdsl.sim.values import unsigned as as_unsigned


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


def on_unsigned(f: Binary, e: Element) -> Binary:
    """``f`` on the operands read as unsigned, its result read as signed."""

    def apply(x: Any, y: Any) -> Any:
        x, y = as_unsigned(x, e), as_unsigned(y, e)
        r = f(x, y)
        return wrap(r, e.bits) if r.__class__ is int else r.view(e.dtype)

    return apply


def _on_bits(f: Binary, signed: bool | None) -> Binary:
    """``f`` on numbers of one bit, which are bools here. Read as signed, true is -1."""

    def read(x: Any) -> Any:
        x = x.astype(np.int8) if x.__class__ is np.ndarray else int(x)
        return -x if signed else x

    def apply(x: Any, y: Any) -> Any:
        r = f(read(x), read(y)) & 1
        return r.astype(np.bool_) if r.__class__ is np.ndarray else bool(r)

    return apply


def function(entry: Integer, e: Element) -> Binary:
    """What the operation computes of two values of a warp."""
    if e.bits == 1:
        is_bitwise = entry.fits and entry.signed is None
        return entry.apply if is_bitwise else _on_bits(entry.apply, entry.signed)
    if entry.signed is False:
        return on_unsigned(entry.apply, e)
    return entry.apply if entry.fits else integer_op(entry.apply, e.bits)


def _checked(op: Any, entry: Integer, e: Element, r: int, a: int, b: int, f: Binary) -> Any:
    """A division or a shift, whose operands are looked at. Who only selects among results need not use this one: a
    shift too far is harmless there."""
    at, what = where(op), op.name
    if entry.kind == "division":
        is_signed = bool(entry.signed)

        def divide(v: Frame) -> None:
            x, y = v[a], v[b]
            if v[0].machine.checks:
                operands.check_division(v[0], x, y, e, is_signed, what, at)
            v[r] = f(x, y)

        return divide

    selected = all(use.owner.name.endswith("select") for use in op.results[0].uses)

    def shift(v: Frame) -> None:
        x, y = v[a], v[b]
        if v[0].machine.checks and not selected:
            operands.check_shift(v[0], y, e, what, at)
        v[r] = f(x, y)

    return shift


def _is_safe(op: Any, entry: Integer, e: Element) -> bool:
    """Whether the second operand is a constant that suits any first one."""
    owner = defining(op.operands[1])
    if owner is None or owner.name not in ("arith.constant", "llvm.mlir.constant"):
        return False
    known = constant_value(owner)
    return known is not None and entry.is_defined(-(1 << (e.bits - 1)), known, e.bits)


def _integer_handler(entry: Integer) -> Any:
    def handler(d: Decoder, op: Any) -> Any:
        e = element(op.results[0].type)
        f = function(entry, e)
        is_vector = isinstance(op.results[0].type, ir.VectorType)
        if entry.kind and not is_vector and e.bits > 1 and not _is_safe(op, entry, e):
            a, b = d.operands(op)
            return _checked(op, entry, e, d.result(op), a, b, f)
        if e.bits == 32 and not is_vector and op.name in SIGNS:
            if is_stored_wide(op, d.places):
                return wrapped.checked(d, op, f, "is stored in 64 bits")
            if is_place(op, d.places):
                return wrapped.checked(d, op, f)
        return binary(d, op, f)

    return handler


def names(name: str) -> list[str]:
    """An operation of arith, and those of the llvm dialect that mean the same."""
    return [name, *(llvm for llvm, same in OF_LLVM.items() if same == name)]


for _name, _entry in INTEGERS.items():
    op(*names(_name))(_integer_handler(_entry))


@op(*names("arith.cmpi"))
def _cmpi(d: Decoder, op: Any) -> Any:
    entry = comparison(integer(op, "predicate"))
    f, e = entry.apply, element(op.operands[0].type)
    if entry.signed is None:
        return binary(d, op, f)
    if e.bits == 1:
        return binary(d, op, _on_bits(f, entry.signed))
    if entry.signed:
        return binary(d, op, f)
    return binary(d, op, lambda x, y: f(as_unsigned(x, e), as_unsigned(y, e)))


# --- floats


def _number(kind: str) -> Binary:
    """minnumf and maxnumf, with the hardware's NaN."""

    def apply(x: Any, y: Any) -> Any:
        r = numbers.reduction(kind, np.asarray(x), np.asarray(y))
        return r if r.ndim else r[()]

    return apply


_NUMBERS = {"arith.minnumf": _number("min"), "arith.maxnumf": _number("max")}

for _name, _f in {**FLOATS, **_NUMBERS}.items():
    op(*names(_name))(functools.partial(binary, f=_f))


@op(*names("arith.negf"))
def _negf(d: Decoder, op: Any) -> Any:
    return unary(d, op, operator.neg)


@op(*names("arith.cmpf"))
def _cmpf(d: Decoder, op: Any) -> Any:
    return binary(d, op, float_comparison(integer(op, "predicate")))


def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once."""
    r = numbers.fma(*map(np.asarray, (x, y, z)))
    return r if r.ndim else r[()]


@op("math.fma", "llvm.intr.fma", "vector.fma", "llvm.intr.fmuladd")
def _fma(d: Decoder, op: Any) -> Any:
    a, b, c = d.operands(op)
    r = d.result(op)

    def step(v: Frame) -> None:
        v[r] = fma(v[a], v[b], v[c])

    return step


# --- the rest


@op(*names("arith.select"))
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
    if isinstance(attribute, ir.IntegerAttr):
        return wrap(attribute.value, e.bits)
    if isinstance(attribute, ir.BoolAttr):
        return attribute.value
    if isinstance(attribute, ir.FloatAttr):
        return e.dtype.type(attribute.value)
    return _dense(attribute, e, ir.VectorType(type).shape)


def _dense(attribute: Any, e: Element, shape: Any) -> Any:
    if attribute.is_splat:
        one = constant(attribute.get_splat_value(), e.name)
        return np.full((*shape, 1), one, e.dtype)
    if e.is_float and e.bits < 32:
        return np.array(_short_floats(str(attribute), e), e.dtype).reshape((*shape, 1))
    if e.is_float:
        found = [ir.FloatAttr(x).value if isinstance(x, ir.Attribute) else x for x in attribute]
    else:
        found = [ir.IntegerAttr(x).value if isinstance(x, ir.Attribute) else x for x in attribute]
    return np.array(found).astype(e.dtype).reshape((*shape, 1))


def _short_floats(text: str, e: Element) -> Any:
    """The elements of ``dense<[1.5, 0x7C00]> : ...``: the bindings read no floats of less than 32 bits out of it. What
    is no number stands there by its bits; a long one is a string of all bits."""
    inner = text[text.index("<") + 1 : text.rindex(">", 0, text.rindex(" : "))]
    if inner.startswith('"'):
        return np.frombuffer(bytes.fromhex(inner.strip('"')[2:]), e.dtype)
    words = inner.translate({ord(c): " " for c in "[],"}).split()
    of_bits = lambda word: np.array(int(word, 16), e.unsigned).view(e.dtype)[()]  # noqa: E731
    return [of_bits(w) if w.startswith("0x") else float(w) for w in words]

