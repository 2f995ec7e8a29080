"""P and dS of attention's gradients, computed anew from the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.ir.derivative import has_slope_one
from nvdsl.kernels.attention.gradient_tiles import KeyTile
from nvdsl.kernels.attention.scores import LOG2_E, ScoreKind, Scores
from nvdsl.ops.order import recomputing

Pairs = Callable[[Any, Any], tuple[Any, Any, Any]]
"""Of a row and a column of a tile of scores: head, query and key."""


class Weights:
    """Made in the kernel. Of a tile of scores it first finds the logarithms to base 2 of the weights P, then, from P
    and its gradient, that of the products ``q k^T`` (without the scale)."""

    def __init__(
        self, kind: ScoreKind, at: KeyTile, scale: Any, softcap: Any, bias: nv.Array | None, operands: Sequence[Any]
    ) -> None:
        self._kind, self._at, self._scale, self._softcap = kind, at, scale, softcap
        self._factor, self._cap = scale * LOG2_E, softcap * LOG2_E
        self._scores = Scores(kind, scale, softcap, bias, operands)

    def logarithms(self, s: Any, pairs: Pairs) -> Any:
        """Of the weights, times the sums of their rows. ``s``: q k^T."""
        if not self._kind.told:
            return self._tanh(s) * self._cap if self._kind.softcap else s * self._factor
        s = self._tanh(s) * self._softcap if self._kind.softcap else s * self._scale
        with recomputing():
            given = list(s.elements())
            found = [self._told(x, *pairs(row, col)) for row, col, x in given]
        self._check(found[0], given[0][2])  # it is the same function for all elements
        return s.with_registers([found]) * LOG2_E

    def _tanh(self, s: Any) -> Any:
        return nv.math.tanh_approx(s * (self._scale / self._softcap))

    def _told(self, x: Any, head: Any, query: Any, key: Any) -> Any:
        """The query, and the key, may be beyond the last one: what is told is the last one then."""
        one = self._at.sequence
        query, key = nv.min(query, one.queries - 1), nv.min(key, one.keys - 1)
        return self._scores.told_of(x, self._at.number, head, query, key)

    def _check(self, found: Any, x: Any) -> None:
        if not has_slope_one(found, x):
            raise ArgumentError(
                f"score={getattr(self._kind.function, '__name__', self._kind.function)}",
                rule="a function of scores has gradients where it returns the score, the score plus or minus what does "
                "not depend on it, or -infinity",
                fix="write it with nv.where(seen, s, -math.inf) and s + ...; softcap= and scale= have gradients, too",
            )

    def slopes(self, p: Any, change: Any, s: Any, logs: Callable[[], Any]) -> Any:
        """``p``: the weights; ``change``: their gradients less the rows' sums; ``s``: q k^T; ``logs()``: logarithms of
        the rows' sums."""
        slopes = p * change
        if not self._kind.softcap:
            return slopes
        if self._kind.told:
            tanh = self._tanh(s)
        else:  # the tanh again, from its exponential: it would take registers to keep the scores
            tanh = nv.clamp((nv.math.log2_approx(p) + logs()) * (1.0 / self._cap), -1.0, 1.0)
        return slopes * (1.0 - tanh * tanh)
