"""math: functions of f32 and f64 by NumPy (not bit for bit what the GPU's approximations give), bit counts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nvdsl.sim.decode import Decoder, op
from nvdsl.sim.dialects.arith import binary, unary
from nvdsl.sim.values import element, wrap


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "expm1": np.expm1, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "tanh": np.tanh, "erf": _erf, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "roundeven": np.rint, "absf": np.abs, "fabs": np.abs, "absi": np.abs,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip


def rounded(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``f`` computed in f64 and rounded to the operand's type."""

    def apply(x: Any) -> Any:
        if x.__class__ is int:
            return int(f(x))
        if x.dtype.kind in "ib":
            return f(x)
        r = np.asarray(f(np.asarray(x, np.float64))).astype(x.dtype)
        return r if r.ndim else r[()]

    return apply


for _name, _f in FUNCTIONS.items():
    op(f"math.{_name}")(functools.partial(unary, f=rounded(_f)))


@op("math.powf", "math.atan2", "math.copysign")
def _two(d: Decoder, op: Any) -> Any:
    f = {"math.powf": np.power, "math.atan2": np.arctan2, "math.copysign": np.copysign}[op.name]
    return binary(d, op, f)


def of_bits(f: Callable[[int, int], int]) -> Any:
    """The handler of an op on an integer: ``f`` of its bits, as an unsigned number, and of how many they are."""

    def handler(d: Decoder, op: Any) -> Any:
        e = element(op.results[0].type)
        full = (1 << e.bits) - 1

        def apply(x: Any) -> Any:
            if x.__class__ is int:
                return wrap(f(x & full, e.bits), e.bits)
            return np.array([wrap(f(int(n) & full, e.bits), e.bits) for n in x.reshape(-1)], e.dtype).reshape(x.shape)

        return unary(d, op, apply)

    return handler


op("math.ctpop", "llvm.intr.ctpop")(of_bits(lambda n, bits: n.bit_count()))
op("math.ctlz", "llvm.intr.ctlz")(of_bits(lambda n, bits: bits - n.bit_length()))
op("math.cttz", "llvm.intr.cttz")(of_bits(lambda n, bits: (n & -n).bit_length() - 1 if n else bits))
