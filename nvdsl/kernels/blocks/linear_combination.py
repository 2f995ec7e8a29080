"""What a matrix product does with a sum before it is stored: scales, alpha, beta * C, bias, activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.options import called
from nvdsl.mlir.dialects import arith
from nvdsl.values import dtypes


def relu(x: Any) -> Any:
    """max(x, 0), and NaN of NaN: max.NaN.f32, which ptxas joins with the conversion of a 16-bit result."""
    return nv.Value(arith.maximumf(x, dtypes.of(x)(0.0)))


def gelu(x: Any) -> Any:
    """x * Phi(x), through erf (Hendrycks and Gimpel, arXiv:1606.08415)."""
    return _weighted(x, _in_f32(nv.math.erf, x * 0.7071067811865476))


def gelu_tanh(x: Any) -> Any:
    """The same paper's approximation of `gelu`, through tanh (one instruction, relative error about 2^-11)."""
    inner = x * nv.math.fma(x * x, 0.7978845608028654 * 0.044715, 0.7978845608028654)
    return _weighted(x, _in_f32(nv.math.tanh_approx, inner))


def silu(x: Any) -> Any:
    """x * sigmoid(x). As `_weighted`, it spills up to 168 bytes in tiles of 176 and more accumulator registers."""
    return x * sigmoid(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), as (1 + tanh(x / 2)) / 2"""
    return nv.math.fma(0.5, _in_f32(nv.math.tanh_approx, 0.5 * x), 0.5)


def tanh(x: Any) -> Any:
    """tanh(x)"""
    return _in_f32(nv.math.tanh, x)


def _weighted(x: Any, odd: Any) -> Any:
    """x * (1 + odd) / 2, in two instructions."""
    half = 0.5 * x
    return nv.math.fma(half, odd, half)


def _in_f32(function: Callable[[Any], Any], x: Any) -> Any:
    """``function(x)``, of x's type; the functions of `nvdsl.math` know f32 only."""
    return dtypes.of(x)(function(nv.f32(x)))


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}
GATES: dict[str, Callable[[Any], Any]] = {"swiglu": silu, "geglu": gelu, "geglu_tanh": gelu_tanh, "reglu": relu}
"""The activations that are gates, and what each does with the first half."""


@dataclass(frozen=True, repr=False)
class LinearCombination:
    """activation(alpha * scale_a * scale_b * sum + beta * c + bias), each part there only where it is asked for.

    A compile-time constant, the function of an `Elementwise` epilogue. Its operands are, in this order, alpha, scale_a,
    scale_b, beta, c, bias. Computed in f32; in f64 where the sums are f64, and then alpha and beta are f64 too.
    """

    alpha: bool = False
    scale_a: bool = False
    scale_b: bool = False
    c: bool = False
    bias: bool = False
    activation: Callable[[Any], Any] | None = None

    def __repr__(self) -> str:
        """The same in every process: what was tuned is found by it."""
        parts = [name for name in ("alpha", "scale_a", "scale_b", "c", "bias") if getattr(self, name)]
        name = getattr(self.activation, "__qualname__", None) or repr(self.activation)
        return f"LinearCombination({', '.join(parts if self.activation is None else [*parts, name])})"

    @property
    def does_nothing(self) -> bool:
        return self == LinearCombination()

    def is_crowded(self, cols: int) -> bool:
        """Whether the largest tiles leave too few registers for what it reads beside results of ``cols`` columns, or
        for erf's polynomials."""
        arrays = self.scale_a + self.scale_b + self.c + self.bias
        parts = arrays + (self.activation is not None)
        return parts > 2 or self.activation is gelu or self.c and (arrays > 1 or cols % 16 != 0)

    @property
    def is_slight(self) -> bool:
        """Whether it reads one array that is a row or a column, and computes little: with swapped operands the largest
        tiles leave registers for that."""
        one = self.scale_a + self.scale_b + self.bias == 1 and not self.c
        return one and self.activation in (None, relu, gelu_tanh)

    @property
    def is_long(self) -> bool:
        """Whether it computes more than a few instructions for each sum."""
        return self.activation not in (None, relu)

    def __call__(self, value: Any, *elements: Any) -> Any:
        wide = nv.f64 if dtypes.of(value) == nv.f64 else nv.f32
        given = iter(elements)
        result = wide(value)
        if self.alpha:
            result = result * next(given)
        if self.scale_a:
            result = result * wide(next(given))
        if self.scale_b:
            result = result * wide(next(given))
        if self.c:
            beta, c = next(given), next(given)
            result = result + beta * wide(c)
        if self.bias:
            result = result + wide(next(given))
        return result if self.activation is None else activated(self.activation, result)


def activated(activation: Callable[[Any], Any], x: Any) -> Any:
    """Of x's type. Raises ArgumentError where an activation returns no number."""
    return dtypes.of(x)(called("activation", activation, x))
