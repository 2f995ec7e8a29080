"""What a step does with its gates, element by element, in f32.

The gates of all hidden units stand one kind after the other, as torch.nn has them: i f g o in an LSTM (Hochreiter and
Schmidhuber, 1997), r z n in a GRU (Cho et al., arXiv:1406.1078, in the form in which r scales the product with h). A
gate is a sum of two parts: ``x``, of the inputs' product, and ``h``, of the hidden state's; biases are in them already.

These functions take traced numbers and fragments alike. What ``forward`` saves is what ``backward`` needs.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import nvdsl as nv
from nvdsl.errors.records import dataclass

_MINUS_LOG2_E = -1.4426950408889634


_FARTHEST = 40.0
"""A sigmoid is 2^-40 at least, so that the product of three denominators is a number."""


def sigmoids(*xs: Any) -> list[Any]:
    """1 / (1 + exp(-x)) of some at once. They share a reciprocal, and multiply it by the other denominators: special
    functions are what a step waits for."""
    below = [1.0 + nv.math.exp2_approx(nv.minimum(x * _MINUS_LOG2_E, _FARTHEST)) for x in xs]
    if len(below) == 1:
        return [nv.math.rcp_approx(below[0])]
    one, *others = below
    rest = functools.reduce(operator.mul, others)
    whole = nv.math.rcp_approx(one * rest)
    if len(others) == 1:
        return [whole * rest, whole * one]
    return [whole * rest, *(whole * (one * other) for other in reversed(others))]


def tanh(x: Any) -> Any:
    """One instruction, with a relative error of 2^-11 (PTX ISA, tanh.approx): half of the last place of f16."""
    return nv.math.tanh_approx(x)


@dataclass(frozen=True)
class Cell:
    """``gates``: kinds of gates, rows of the weights for each hidden unit. ``states``: of a step: h, and c of an LSTM.
    ``saved``: values for each hidden unit that a step leaves to the backward pass, of ``saved_dtype``: f16 is
    enough for what is squashed."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    saved: ClassVar[int]
    saved_dtype: ClassVar[nv.DType] = nv.f16

    def forward(self, x: Sequence[Any], h: Sequence[Any], state: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The new state, h first, and what is saved."""
        raise NotImplementedError

    def backward(
        self, saved: Sequence[Any], before: Any, after: Any, d: Sequence[Any]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """The gradients of the gates' parts of x and of h, and what goes to the step before beside the weights.

        ``before``, ``after``: of an LSTM c, else h, before and after the step. ``d``: of the state after the step.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class LSTM(Cell):
    """``c = f c + i g``, ``h = o tanh(c)``."""

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2
    saved: ClassVar[int] = 4

    def forward(self, x: Sequence[Any], h: Sequence[Any], state: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        i, f, g, o = (a + b for a, b in zip(x, h, strict=True))
        (i, f, o), g = sigmoids(i, f, o), tanh(g)
        c = f * state[1] + i * g
        return [o * tanh(c), c], [i, f, g, o]

    def backward(
        self, saved: Sequence[Any], before: Any, after: Any, d: Sequence[Any]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        (i, f, g, o), (dh, dc) = saved, d
        squashed = tanh(after)
        dc = dc + dh * o * (1.0 - squashed * squashed)
        gates = [
            dc * g * i * (1.0 - i),
            dc * before * f * (1.0 - f),
            dc * i * (1.0 - g * g),
            dh * squashed * o * (1.0 - o),
        ]
        return gates, gates, [0.0, dc * f]


@dataclass(frozen=True)
class GRU(Cell):
    """``n = tanh(x_n + r h_n)``, ``h = (1 - z) n + z h``."""

    gates: ClassVar[int] = 3
    saved: ClassVar[int] = 4
    saved_dtype: ClassVar[nv.DType] = nv.f32

    def forward(self, x: Sequence[Any], h: Sequence[Any], state: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        r, z = sigmoids(x[0] + h[0], x[1] + h[1])
        n = tanh(x[2] + r * h[2])
        return [n + z * (state[0] - n)], [r, z, n, h[2]]

    def backward(
        self, saved: Sequence[Any], before: Any, after: Any, d: Sequence[Any]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        (r, z, n, scaled), (dh,) = saved, d
        dn = dh * (1.0 - z) * (1.0 - n * n)
        dr, dz = dn * scaled * r * (1.0 - r), dh * (before - n) * z * (1.0 - z)
        return [dr, dz, dn], [dr, dz, dn * r], [dh * z]


@dataclass(frozen=True)
class RNN(Cell):
    """``h = tanh(gate)``, or ``relu(gate)``."""

    relu: bool = False

    gates: ClassVar[int] = 1
    saved: ClassVar[int] = 0

    def forward(self, x: Sequence[Any], h: Sequence[Any], state: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        gate = x[0] + h[0]
        return [nv.where(gate < 0.0, 0.0, gate) if self.relu else tanh(gate)], []  # a NaN stays one

    def backward(
        self, saved: Sequence[Any], before: Any, after: Any, d: Sequence[Any]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        (dh,) = d
        gate = [nv.where(after > 0.0, dh, 0.0) if self.relu else dh * (1.0 - after * after)]
        return gate, gate, [0.0]
