"""llvm: structs of registers, intrinsics. Arithmetic is in `arith`, pointers in `llvm_memory`, inline PTX in `ptx`."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.ir.location import where
from nvdsl.ir.operands import integers, string
from nvdsl.ir.walk import defining
from nvdsl.sim.decode import Decoder, Frame, op, unknown
from nvdsl.sim.dialects.arith import binary, fma, unary
from nvdsl.sim.dialects.math import FUNCTIONS, of_bits, rounded
from nvdsl.sim.registers import Struct
from nvdsl.sim.values import element, wrap
from nvdsl.sim.wgmma_registers import Accumulator, read_warp_registers

_NOBODYS = 0x5B5B_5B5B_5B5B_5B5B


@op("llvm.mlir.undef", "llvm.mlir.poison", "llvm.mlir.zero", "llvm.mlir.none", "ub.poison")
def _undefined(d: Decoder, op: Any) -> Any:
    """A struct is made anew each time, since insertvalue may write into it; registers are None until written. A number
    that is undefined is one that shows where it is used."""
    type = str(op.results[0].type)
    if not type.startswith(("!llvm.struct", "!llvm.array")):
        value = None
        if op.name == "llvm.mlir.zero":
            value = _zero(op.results[0].type)
        elif not type.startswith(("!", "vector")):
            kind = element(op.results[0].type)
            value = kind.dtype.type(math.nan) if kind.is_float else wrap(_NOBODYS, kind.bits)
        d.define(op.results[0], value)
        return None
    r = d.result(op)
    make = _maker(op.results[0].type, _zero if op.name == "llvm.mlir.zero" else _nothing)

    def step(v: Frame) -> None:
        v[r] = make()

    return step


def _zero(type: Any) -> Any:
    return element(type).dtype.type(0) if element(type).is_float else 0


def _nothing(type: Any) -> None:
    return None


def _maker(type: Any, number: Callable[[Any], Any]) -> Any:
    """``number``: what a register begins with, by its type."""
    text = str(type)
    if count := re.match(r"!llvm\.array<(\d+) x vector<", text):  # the rows of a vector
        return lambda: Struct([None] * int(count[1]))
    if not text.startswith("!llvm.struct"):
        value = number(type)
        return lambda: value
    from nvdsl.mlir.dialects import llvm

    parts = list(llvm.StructType(type).body)
    makers = {part: _maker(part, number) for part in set(parts)}
    each = [makers[part] for part in parts]
    return lambda: Struct([make() for make in each])


@op("llvm.insertvalue")
def _insertvalue(d: Decoder, op: Any) -> Any:
    """In place where the struct has no other use."""
    target, value = d.operands(op)
    r = d.result(op)
    path = integers(op, "position")
    source = defining(op.operands[0])
    owned = (
        source is not None
        and len(path) == 1
        and source.name in ("llvm.insertvalue", "llvm.mlir.undef", "llvm.mlir.poison")
        and len(list(source.results[0].uses)) == 1
        and source.block == op.block
    )
    last, at = path[-1], where(op)

    def step(v: Frame) -> None:
        s = v[target]
        if not owned:
            s = v[r] = _copied(s, len(path), at)
            for i in path[:-1]:
                s[i] = s = read_warp_registers(s[i], at) if s[i].__class__ is Accumulator else s[i]
        else:
            v[r] = s
        s[last] = v[value]
        mma = v[0].mma
        s.stamp = mma.fences if mma is not None else 0

    return step


def _copied(s: Any, depth: int, at: Any) -> Any:
    s = read_warp_registers(s, at)
    if depth == 1:
        return Struct(s, s.stamp)
    return Struct([_copied(x, depth - 1, at) if isinstance(x, list) else x for x in s], s.stamp)


@op("llvm.extractvalue")
def _extractvalue(d: Decoder, op: Any) -> Any:
    (a,) = d.operands(op)
    r = d.result(op)
    at = where(op)
    path = integers(op, "position")
    if len(path) == 1:
        i = path[0]

        def step(v: Frame) -> None:
            s = v[a]
            v[r] = s.registers(at)[i] if s.__class__ is Accumulator else s[i]

        return step

    def deep(v: Frame) -> None:
        s = v[a]
        for i in path:
            s = s.registers(at)[i] if s.__class__ is Accumulator else s[i]
        v[r] = s

    return deep


# --- intrinsics

_INTRINSICS: dict[str, Callable[[Any], Any]] = {
    "llvm.sqrt": np.sqrt, "llvm.fabs": np.abs, "llvm.floor": np.floor, "llvm.ceil": np.ceil, "llvm.trunc": np.trunc,
    "llvm.roundeven": np.rint, "llvm.rint": np.rint, "llvm.nearbyint": np.rint, "llvm.round": FUNCTIONS["round"],
    "llvm.tanh": np.tanh, "llvm.exp2": np.exp2, "llvm.exp": np.exp, "llvm.log2": np.log2, "llvm.log": np.log,
    "llvm.sin": np.sin, "llvm.cos": np.cos, "llvm.nvvm.rsqrt.approx.f": lambda x: 1 / np.sqrt(x),
    "llvm.nvvm.rsqrt.approx.ftz.f": lambda x: 1 / np.sqrt(x), "llvm.nvvm.sqrt.approx.ftz.f": np.sqrt,
    "llvm.nvvm.sqrt.approx.f": np.sqrt,
}  # fmt: skip


@op("llvm.call_intrinsic")
def _call_intrinsic(d: Decoder, op: Any) -> Any:
    name = string(op, "intrin")
    short = name if name in _INTRINSICS else re.sub(r"\.(v\d+)?(bf|f|i)\d+$", "", name)
    if short in _INTRINSICS:
        return unary(d, op, rounded(_INTRINSICS[short]))
    if short == "llvm.bitreverse":
        return of_bits(lambda n, bits: int(f"{n:0{bits}b}"[::-1], 2))(d, op)
    if short == "llvm.fma":
        a, b, c = d.operands(op)
        r = d.result(op)

        def step(v: Frame) -> None:
            v[r] = fma(v[a], v[b], v[c])

        return step
    if short in ("llvm.copysign", "llvm.minnum", "llvm.maxnum", "llvm.pow"):
        f = {"llvm.copysign": np.copysign, "llvm.minnum": np.fmin, "llvm.maxnum": np.fmax, "llvm.pow": np.power}[short]
        return binary(d, op, f)
    raise unknown(op, f"the intrinsic {name}")


for _name, _f in (("fabs", np.abs), ("sqrt", np.sqrt), ("exp2", np.exp2), ("floor", np.floor), ("ceil", np.ceil),
                  ("trunc", np.trunc), ("roundeven", np.rint), ("rint", np.rint)):  # fmt: skip
    op(f"llvm.intr.{_name}")(functools.partial(unary, f=rounded(_f)))


@op("llvm.freeze")
def _freeze(d: Decoder, op: Any) -> None:
    d.alias(op.results[0], op.operands[0])


