"""Arithmetic of traced values: every operator on every pair of types, every conversion, every function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import nvdsl as nv
from tests.differential import inputs
from tests.differential.case import Call, Case, Result, dtype, from_bits

COUNT = 128
"""Elements of each input. A uniform case reads them one for each block, another one for each thread."""


def bits(x: Any) -> Any:
    """The bits of a traced value, as u64."""
    t = x.dtype
    if t is nv.bool_ or t is nv.index:
        return nv.u64(x)
    return nv.u64(nv.bitcast(x, dtype(f"u{t.bits}")))


def _elementwise(
    sources: list[np.ndarray], apply: Callable[..., list[tuple[str, Any]]], uniform: bool, tolerances: Any = None
) -> Call:
    """A kernel that calls ``apply`` on one element of each source and stores the bits of all results."""
    names: list[tuple[str, str]] = []
    grid, block = (COUNT, 32) if uniform else (2, COUNT // 2)

    @nv.jit
    def elementwise(out, *sources):
        @nv.kernel(grid=grid, block=block)
        def kernel():
            at = nv.block_id.x if uniform else nv.block_id.x * block + nv.thread_id.x
            found = apply(*[source[at] for source in sources])
            names[:] = [(name, value.dtype.name) for name, value in found]
            words = [bits(value) for _, value in found]
            for row, word in enumerate(words):
                if uniform:
                    if nv.thread_id.x == 0:
                        out[row, at] = word
                else:
                    out[row, at] = word

        kernel()

    out = np.full((ROWS, COUNT), 0xCDCDCDCDCDCDCDCD, np.uint64)

    def results() -> list[Result]:
        limits = tolerances or {}
        return [Result(name, from_bits(out[row], t), limits.get(name)) for row, (name, t) in enumerate(names)]

    return Call(elementwise, [out, *sources], results)


ROWS = 32
"""At most so many results a kernel."""


def _divisor(y: Any) -> Any:
    """Neither 0 nor -1: a division by 0, and of the least number by -1, is undefined."""
    return nv.select((y == 0) | (y == -1), 3, y) if y.dtype.signed else nv.select(y == 0, 3, y)


def operators(x: Any, y: Any) -> list[tuple[str, Any]]:
    """All operators that exist for the types of two traced values."""
    s, t = x.dtype, y.dtype
    found = [("+", x + y), ("-", x - y), ("*", x * y), ("==", x == y), ("!=", x != y), ("<", x < y), ("<=", x <= y)]
    found += [(">", x > y), (">=", x >= y), ("min", nv.min(x, y)), ("max", nv.max(x, y))]
    found += [("abs", nv.abs(x)), ("neg", -x), ("square", x**2)]
    if not s is t is nv.bool_:  # of that ptxas before 13.4 makes `x < y or y` (docs/bugs.md)
        found += [("select", nv.select(x < y, x, y))]
    if s.is_float or t.is_float:
        found += [("/", x / y), ("fma", nv.math.fma(x, y, x)), ("clamp", nv.clamp(x, -1.0, y))]
    else:
        found += [("&", x & y), ("|", x | y), ("^", x ^ y), ("~", ~x)]
        found += [("// 8", x // 8), ("% 8", x % 8), ("// 7", x // 7)]
        if s is not nv.bool_:
            found += [("<<", x << (y & (s.bits - 1))), (">>", x >> (y & (s.bits - 1))), ("** 3", x**3)]
        if t is not nv.bool_:
            found += [("//", x // _divisor(y)), ("%", x % _divisor(y))]
    return found


@dataclass(frozen=True)
class Operators(Case):
    """All operators on ``left`` and ``right``, element by element."""

    kind = "operators"
    left: str
    right: str
    seed: int
    uniform: bool

    def call(self) -> Call:
        x, y = inputs.mixed(self.left, COUNT, self.seed), inputs.mixed(self.right, COUNT, self.seed + 1)
        return _elementwise([x, y], operators, self.uniform)


@dataclass(frozen=True)
class Conversions(Case):
    """``source`` converted to every type."""

    kind = "conversions"
    source: str
    seed: int
    uniform: bool

    def call(self) -> Call:
        def convert(x: Any) -> list[tuple[str, Any]]:
            targets = [t for t in TYPES if t != self.source]
            return [(f"{self.source} to {t}", dtype(t)(self._within(x, t))) for t in targets]

        return _elementwise([inputs.mixed(self.source, COUNT, self.seed)], convert, self.uniform)

    def _within(self, x: Any, target: str) -> Any:
        """A float that an integer of type ``target`` holds: beyond its range the conversion is undefined."""
        t = dtype(target)
        if not x.dtype.is_float or t.is_float or t is nv.bool_:
            return x
        wide = x if x.dtype in (nv.f32, nv.f64) else nv.f32(x)
        limit = 2.0 ** (t.bits - 1)
        low, high = (-limit, limit) if t.signed else (0.0, 2 * limit)
        inside = (wide > low) & (wide < high)
        return nv.select(inside, wide, 1.0)


TYPES = ("f64", "f32", "f16", "bf16", "tf32", "e4m3", "e5m2", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8",
         "bool_")  # fmt: skip
ARITHMETIC = tuple(t for t in TYPES if t not in ("tf32", "e4m3", "e5m2"))

_EXACT = ("sqrt", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite")
# (relative, absolute): twice the largest errors that nvdsl/values/math.py states for an H200, since the simulator
# computes in f64 and rounds. What is flushed to zero is below the absolute bound.
_APPROXIMATE: dict[str, tuple[float, float]] = {
    "exp2": (2**-21, 2e-45), "exp": (2**-16, 1e-44), "log2": (2**-20, 2**-21), "log": (2**-20, 2**-21),
    "rsqrt": (2**-21, 0.0), "sin": (0.0, 2**-19), "cos": (0.0, 2**-19), "tanh": (2**-21, 0.0), "erf": (2**-21, 0.0),
    "exp2_approx": (2**-21, 2**-126), "exp_approx": (2**-16, 2**-126), "log2_approx": (2**-20, 2**-21),
    "rcp_approx": (2**-21, 2**-126), "sqrt_approx": (2**-21, 2**-62), "rsqrt_approx": (2**-21, 0.0),
    "sin_approx": (0.0, 2**-19), "cos_approx": (0.0, 2**-19), "tanh_approx": (2**-10, 2**-120),
}  # fmt: skip


@dataclass(frozen=True)
class Functions(Case):
    """Every function of `nvdsl.math` on f32, or those that f64 has; arguments where each is meant to be used."""

    kind = "functions"
    source: str
    seed: int
    uniform: bool

    def call(self) -> Call:
        names = _EXACT + (("rsqrt",) if self.source == "f64" else tuple(_APPROXIMATE))

        def apply(x: Any) -> list[tuple[str, Any]]:
            return [(name, getattr(nv.math, name)(_argument(name, x))) for name in names]

        narrow = {"f16": 2**-9, "bf16": 2**-6}.get(self.source)  # one rounding may fall the other way
        limits = {name: (2 * narrow, bound[1] + 1e-7) if narrow else bound for name, bound in _APPROXIMATE.items()}
        if self.source == "f64":
            limits = {"rsqrt": (2**-51, 0.0)}
        return _elementwise([inputs.mixed(self.source, COUNT, self.seed)], apply, self.uniform, limits)


def _argument(name: str, x: Any) -> Any:
    """``x`` where ``name`` is good: sines near 0; the ``.ftz`` forms on numbers that are not subnormal."""
    if name in ("sin", "cos", "sin_approx", "cos_approx"):
        limit = 3.0 if name.endswith("_approx") else 1e4
        return nv.select(nv.abs(x) < limit, x, 0.75)
    if name in ("log2_approx", "rcp_approx", "sqrt_approx", "rsqrt_approx", "rsqrt"):
        return nv.select(nv.abs(x) < 1.2e-38, 0.75, x) if x.dtype in (nv.f32, nv.bf16) else x
    return x
