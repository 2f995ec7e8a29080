"""P and dS of attention's gradients, computed anew from the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.ir.derivative import has_slope_one
from nvdsl.kernels.attention.gradient_tiles import KeyTile
from nvdsl.kernels.attention.scores import LOG2_E, ScoreKind, Scores
from nvdsl.ops.order import recomputing

Pairs = Callable[[Any, Any], tuple[Any, Any, Any]]
"""Of a row and a column of a tile of scores: head, query and key."""
Hide = Callable[[Any], Any]
SOME = 16
"""Keys whose weights are found at a time where that takes registers: with a softcap, a bias or a function."""


class Scoring(NamedTuple):
    """What makes a weight of ``q k^T`` of a query and a key: see `Scores` and `ScoreKind`. ``dbias``: to what the
    gradient of ``bias`` is added, if it is wanted. ``left``, ``right``: how many keys before and behind its own a query
    sees, None for all."""

    kind: ScoreKind
    scale: nv.Number
    softcap: nv.Number
    bias: nv.Array | None
    dbias: nv.Array | None
    operands: Sequence[Any]
    left: nv.Int | None
    right: nv.Int | None

    @property
    def scores(self) -> Scores:
        """Made anew in the kernel."""
        return Scores(self.kind, self.scale, self.softcap, self.bias, self.operands)


class Weights:
    """Made in the kernel. Of a tile of scores it finds the weights P, and how steep they are: the gradients of the
    products ``q k^T`` (without the scale) are that times the gradients of P less the rows' sums."""

    def __init__(self, scoring: Scoring, at: KeyTile) -> None:
        self._kind, self._scale, self._softcap, _, self._dbias, *_ = scoring
        self._factor, self._cap = self._scale * LOG2_E, self._softcap * LOG2_E
        self._at, self._scores = at, scoring.scores

    def of(self, s: Any, logs: Sequence[Any], pairs: Pairs, partly: Any, hide: Hide) -> tuple[Any, Any]:
        """P, and how steep it is. ``s``: q k^T. ``logs``: logarithms of the rows' sums, to base 2; or natural ones
        where scores are told where they are, and what these have lost (`gradient_rows.Told`), to base 2. ``partly``:
        some are hidden, by ``hide``, which makes them -infinity."""
        kind, tanh = self._kind, None
        if kind.softcap:
            tanh = self._tanh(s)
        if kind.told:
            x = self._told(s * self._scale if tanh is None else tanh * self._softcap, logs, pairs)
        else:
            x = s * self._factor - logs[0] if tanh is None else tanh * self._cap
        if partly:
            x = hide(x)
        if tanh is None:
            p = nv.math.exp2_approx(x)
            return p, p
        if not kind.told:  # not kept while some are hidden: it would take registers
            tanh = nv.clamp(x * (1.0 / self._cap), -1.0, 1.0)
            x = x - logs[0]
        p = nv.math.exp2_approx(x)
        return p, p * (1.0 - tanh * tanh)

    def pass_on(self, grad: Any, pairs: Pairs) -> None:
        """Add the gradients of scores to that of the bias, if it gets one. Those beyond the last query, or key, are
        zeros."""
        if self._dbias is None:
            return
        with recomputing():
            for row, col, x in grad.elements():
                places = zip(self._places(*pairs(row, col)), self._dbias.shape, strict=True)
                self._dbias.atomic_add(tuple(nv.min(place, extent - 1) for place, extent in places), x)

    def _tanh(self, s: Any) -> Any:
        return nv.math.tanh_approx(s * (self._scale / self._softcap))

    def _told(self, scores: Any, logs: Sequence[Any], pairs: Pairs) -> Any:
        """Logarithms to base 2 of the weights, where it matters of which query and key a score is. What was added is
        subtracted before anything is multiplied: the least of all numbers has no product."""
        with recomputing():
            given = list(scores.elements())
            found = [self._told_of(x, *pairs(row, col)) for row, col, x in given]
        self._check(found[0], given[0][2])  # it is the same function for all elements
        return (scores.with_registers([found]) - logs[0]) * LOG2_E - logs[1]

    def _told_of(self, x: Any, head: Any, query: Any, key: Any) -> Any:
        return self._scores.told_of(x, *self._places(head, query, key))

    def _places(self, head: Any, query: Any, key: Any) -> tuple[Any, Any, Any, Any]:
        """Batch, head, query and key. The last two may be beyond the last one: what is told is the last one then."""
        one = self._at.sequence
        return self._at.number, head, nv.min(query, one.queries - 1), nv.min(key, one.keys - 1)

    def _check(self, found: Any, x: Any) -> None:
        if not has_slope_one(found, x):
            raise ArgumentError(
                f"score={getattr(self._kind.function, '__name__', self._kind.function)}",
                rule="a function of scores has gradients where it returns the score, the score plus or minus what does "
                "not depend on it, or -infinity",
                fix="write it with nv.where(seen, s, -math.inf) and s + ...; softcap= and scale= have gradients, too",
            )


def first_columns(x: Any, count: int) -> Any:
    """The first columns of a fragment."""
    (registers,) = x.registers()
    return nv.accumulator(64, count).with_registers([registers[: count // 2]])


def moved_up(x: Any, last: Any) -> Any:
    """A fragment without as many of its first columns as ``last`` has, which come behind its other ones: registers have
    no numbers that a run could know."""
    (registers,), (more,) = x.registers(), last.registers()
    return x.with_registers([registers[len(more) :] + more])
