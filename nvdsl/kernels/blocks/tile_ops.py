"""Epilogues of whole tiles that are often wanted. Each is short: write your own alike.

What a tile reduces is a part of a row or column of the result, and each part has a place of its own, so two calls give
the same bits. The caller adds the parts up: ``parts.max(axis=0)``, ``parts.sum(axis=0)``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.errors.records import dataclass
from nvdsl.kernels.blocks.philox import kept, threshold
from nvdsl.kernels.blocks.tile_op import Operand, TileOp, TilePlace
from nvdsl.kernels.options import real

LARGEST_E4M3 = 448.0
LEAST_SCALE = 2.0**-126
"""The reciprocal of a lesser one may be no number of f32."""
SLICE = 64


def _parts(name: str, shape: Callable[[Any, int, int], tuple[int, int]]) -> Callable[[Any], TileOp]:
    """A `TileOp` with an array of parts beside the result, whose ``shape`` is that of (config, M, N)."""

    def decorate(function: Any) -> TileOp:
        function.expects = lambda config, out: [Operand(name, shape(config, *out.shape), nv.f32)]
        return TileOp(function)

    return decorate


def _of_rows(config: Any, m: int, n: int) -> tuple[int, int]:
    return nv.cdiv(n, config.cols // config.split), m


def _of_columns(config: Any, m: int, n: int) -> tuple[int, int]:
    return nv.cdiv(m, config.rows), n


@_parts("maxima", _of_rows)
def row_maxima(sums: Any, at: TilePlace, maxima: nv.Array) -> Any:
    """``maxima[part, row]``: the greatest value of each row of a tile, of the columns of a consumer (`Config.cols`), or
    with split-K of a block (``config.cols // config.split``); f32, (ceil(N / these), M)."""
    at.inside(sums, -math.inf).max(axis=1).store(maxima, (at.number, at.row), clip=True)
    return sums


@_parts("squares", _of_rows)
def row_squares(sums: Any, at: TilePlace, squares: nv.Array) -> Any:
    """``squares[part, row]``: the same of sums of squares, for RMSNorm."""
    inside = at.inside(sums, 0.0)
    (inside * inside).sum(axis=1).store(squares, (at.number, at.row), clip=True)
    return sums


@_parts("maxima", _of_columns)
def column_maxima(sums: Any, at: TilePlace, maxima: nv.Array) -> Any:
    """``maxima[rows, col]``: the greatest value of each column, of the rows of a consumer (`Config.rows`); f32,
    (ceil(M / config.rows), N)."""
    scratch = at.scratch()
    for left, part in _slices(at.inside(sums, -math.inf)):
        found = part.max(axis=0, scratch=scratch, barrier=at.barrier)
        if at.row < at.shape[0]:
            found.store(maxima, (at.row // sums.shape[0], at.col + left), clip=True)
    return sums


@_parts("squares", _of_columns)
def column_squares(sums: Any, at: TilePlace, squares: nv.Array) -> Any:
    """The same of sums of squares."""
    scratch = at.scratch()
    for left, part in _slices(at.inside(sums, 0.0)):
        found = (part * part).sum(axis=0, scratch=scratch, barrier=at.barrier)
        if at.row < at.shape[0]:
            found.store(squares, (at.row // sums.shape[0], at.col + left), clip=True)
    return sums


def _slices(x: Any) -> list[tuple[int, Any]]:
    """Up to 64 columns of ``x`` at a time, which hold few registers, and the first one's number."""
    cols = x.shape[1]
    return [(left, x[:, left : min(left + SLICE, cols)]) for left in range(0, cols, SLICE)]


def _quantized(sums: Any, at: TilePlace, scales: nv.Array) -> Any:
    scale = at.inside(abs(sums), 0.0).max(axis=1) * (1 / LARGEST_E4M3)
    scale = nv.where(scale == 0.0, 1.0, nv.where(scale < LEAST_SCALE, LEAST_SCALE, scale))
    if at.col < at.shape[1]:  # a tile's last pieces may lie beyond the result
        scale.store(scales, (at.number, at.row), clip=True)
    return sums * (1.0 / scale)[:, None]


def _scales(config: Any, out: Any) -> list[Operand]:
    if out.dtype is not nv.e4m3 or config.cols % 128:
        raise ArgumentError(
            f"quantized: a result of {out.dtype.name} in tiles of {config.cols} columns",
            rule="each 128 columns of an e4m3 result have a scale, in tiles of 128 or 256",
            fix="Config(128, 128)",
        )
    return [Operand("scales", (nv.cdiv(out.shape[1], 128), out.shape[0]), nv.f32)]


_quantized.expects = _scales  # type: ignore[attr-defined]
quantized = TileOp(_quantized, pieces=True)
"""For a result of e4m3: each 128 elements of a row are divided by ``scales[number, row]``, their greatest magnitude
over 448 (at least 2**-126; 1 for zeros). f32, (ceil(N / 128), M); tiles have 128 or 256 columns. `nvdsl.matmul` takes
``scales.T`` as ``scale_a`` beside the result."""


@dataclass(frozen=True)
class Dropout:
    """Zeros with the probability ``p``, and what is left divided by ``1 - p``: ``TileOp(Dropout(0.1), pieces=True)``.

    Operands: ``seed``, an integer of 64 bits, and, if wanted, a residual of the result's shape that is added then."""

    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", real("p", self.p))
        threshold(self.p)

    @staticmethod
    def expects(config: Any, out: Any) -> list[Operand]:
        return [Operand("seed"), Operand("residual", out.shape, optional=True)]

    def __call__(self, sums: Any, at: TilePlace, seed: nv.Int, residual: nv.Array | None = None) -> Any:
        row0, col0 = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
        scale, least, blocks = 1.0 / (1.0 - self.p), threshold(self.p), []
        key = nv.u32(seed), nv.u32(nv.u64(seed) >> 32)
        for top, registers in enumerate(sums.registers()):
            values = list(registers)
            for first in range(0, len(values), 4):
                _, right = nv.layout.accumulator_element(0, first)
                keep = kept(key, at.batch, at.row + row0 + top * 64, at.col + col0 + right, least)
                for register in range(first, first + 4):
                    i, j = nv.layout.accumulator_element(0, register)
                    values[register] = nv.select(keep[i, j - right], values[register] * scale, 0.0)
            blocks.append(values)
        dropped = sums.with_registers(blocks)
        if residual is None:
            return dropped
        return dropped + nv.fragment(residual, (at.row, at.col), sums.shape, clip=True)


@dataclass(frozen=True, repr=False)
class Gated:
    """``activation(alpha * gate + bias) * (alpha * up + bias)``: ``TileOp(Gated(silu), halves=2, pieces=True)``.

    Operands: ``alpha``, a number, and ``bias``, (1, 2 N), each where it is asked for. ``groups``: the bias has a row
    for each group of a grouped product.
    """

    activation: Callable[[Any], Any]
    alpha: bool = False
    bias: bool = False
    groups: bool = False

    def __repr__(self) -> str:
        return f"Gated({', '.join([self.activation.__qualname__, *['alpha'] * self.alpha, *['bias'] * self.bias])})"

    def __call__(self, sums: Any, at: TilePlace, *operands: Any) -> Any:
        """Of a tile."""
        cols, group = sums[0].shape[1], at.batch if self.groups else 0
        halves = [
            self._finished(half, operands, functools.partial(_columns, group, start, cols))
            for half, start in zip(sums, (at.col, at.col + at.shape[1]), strict=True)
        ]
        return halves[0].map(self.activation) * halves[1]

    def of_nothing(self, value: Any, batch: Any, row: Any, col: Any, *operands: Any) -> Any:
        """Of one element, where K is 0."""
        group = batch if self.groups else 0
        gate, up = (
            self._finished(nv.f32(value), operands, functools.partial(_element, group, half, col)) for half in (0, 1)
        )
        return self.activation(gate) * up

    def _finished(self, x: Any, operands: tuple[Any, ...], read: Callable[[nv.Array], Any]) -> Any:
        if self.alpha:
            x = x * operands[0]
        return x + read(operands[-1]) if self.bias else x


def _columns(group: Any, start: Any, cols: int, bias: nv.Array) -> Any:
    return nv.column_vector(bias, (group, start), cols, clip=True)[None, :]


def _element(group: Any, half: int, col: Any, bias: nv.Array) -> Any:
    *first, wide = bias.shape
    return nv.f32(bias[(*[0] * (len(first) - 1), group, col + half * (wide // 2))])
