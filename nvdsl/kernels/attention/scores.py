"""What becomes of a score between q k^T and the softmax."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.errors.records import dataclass
from nvdsl.ir.derivative import has_slope_one
from nvdsl.kernels.attention.tiles import Place, Sight
from nvdsl.kernels.options import called

LOG2_E = math.log2(math.e)
LEAST = 2.0**-100

ScoreFunction = Callable[..., Any]
"""``score(s, batch, head, query, key, *operands)``: what a score becomes. ``s`` is an f32, ``scale * q k^T``; the
others are i32, and ``query`` and ``key`` count from the start of their sequence."""


@dataclass(frozen=True)
class ScoreKind:
    """``softcap``, ``bias``: whether there is one. ``function``: of the caller, or None. ``signed``: the scale may be
    negative, or 0."""

    softcap: bool = False
    bias: bool = False
    function: ScoreFunction | None = None
    signed: bool = False

    @property
    def told(self) -> bool:
        """Whether it matters of which query and which key a score is."""
        return self.bias or self.function is not None

    @property
    def changes(self) -> bool:
        """Whether a score is more than ``scale * q k^T`` with a scale above 0."""
        return self.softcap or self.told or self.signed


class Rows:
    """64 rows of a tile, whose first one is query ``query`` of the sequence: ``pack`` heads of each query, one behind
    the other. ``group``: heads of q for each head of keys."""

    def __init__(self, place: Place, query: Any, group: Any, pack: int) -> None:
        self.batch, self._query, self._pack = place.batch, query, pack
        self._first_head = place.kv_head * group + place.shared
        self._last_head = place.kv_head * group + group - 1

    def of(self, row: Any) -> tuple[Any, Any]:
        """The head of q, and the query, of a row, or of a vector of rows."""
        if self._pack == 1:
            return self._first_head, row + self._query
        return row % self._pack + self._first_head, row // self._pack + self._query

    def told(self, row: Any) -> tuple[Any, Any]:
        """The same for a function of scores: rows behind a group's last head have that one."""
        head, query = self.of(row)
        return head if self._pack == 1 else nv.min(head, self._last_head), query

    def see(self, sight: Sight, most: Any) -> None:
        """Find which keys each row sees, but none from ``most`` on, if that is not None."""
        self.sight = sight
        _, queries = self.of(nv.accumulator(64, 8).rows)
        end = sight.end(queries)
        self.end = end if most is None else nv.minimum(end, most)
        self.begin = None if sight.left is None else sight.begin(queries)


class Scales:
    """What 8-bit elements are multiplied with: arrays (batch, heads of keys) of f32 for q, k and v, of which axes of
    one element are for all. None: 1."""

    def __init__(self, q: nv.Array | None, k: nv.Array | None, v: nv.Array | None) -> None:
        self._q, self._k, self._v = q, k, v

    def of_scores(self, place: Place) -> Any:
        """Of q k^T. One of 0 stands for the least number, so that what is not seen stays -infinity; one below 0, which
        would exchange least and greatest, is NaN."""
        found = _product([_of_head(x, place) for x in (self._q, self._k) if x is not None])
        if found is None:
            return None
        return nv.select(found == 0.0, LEAST, nv.select(found < 0.0, math.nan, found))

    def of_values(self, place: Place) -> Any:
        """Of v."""
        return None if self._v is None else _of_head(self._v, place)


def _of_head(x: nv.Array, place: Place) -> Any:
    return x[nv.min(place.batch, x.shape[0] - 1), nv.min(place.kv_head, x.shape[1] - 1)]


def _product(factors: list[Any]) -> Any:
    return functools.reduce(operator.mul, factors) if factors else None


class Scores:
    """``softcap * tanh(scale * q k^T / softcap) + bias``, and then the caller's function. Made in the kernel.

    ``factor``: what turns its results into logarithms to base 2; ``unit``: into natural ones. ``told``: whether they
    may be of any size; ``hides``: whether some may be -infinity.
    """

    def __init__(
        self, kind: ScoreKind, scale: Any, softcap: Any, bias: nv.Array | None, operands: Sequence[Any]
    ) -> None:
        self._kind, self._softcap, self._bias, self._operands = kind, softcap, bias, operands
        self._scale: Any = scale if kind.changes else None
        self.told = self.hides = kind.told
        self.unit = nv.f32(1.0) if kind.changes else scale
        self.factor = self.unit * LOG2_E

    def settle(self, rows: Rows, key: Any) -> None:
        """Look at what the caller's function does to a score. Where it only hides some, they need no scale before, and
        exponentials are found as they are without a function: it adds no number that may be large."""
        kind, scale = self._kind, self._scale
        if kind.function is None or kind.bias or kind.softcap or kind.signed:
            return
        if has_slope_one(self._told(scale, rows, 0, key, False), scale, shifted=False):
            self.told, self._scale, self.unit = False, None, scale
            self.factor = scale * LOG2_E

    def of(self, s: Any, rows: Rows, key: Any, *, whole: bool = False) -> Any:
        """``s``: 64 rows of q k^T, beside the keys from ``key`` on, which all rows see. ``whole``: none of them is
        beyond the last key."""
        kind = self._kind
        if self._scale is not None:
            s = s * self._scale
        if kind.softcap:
            s = nv.math.tanh_approx(s * (1.0 / self._softcap)) * self._softcap
        if kind.told:
            s = s.with_registers([[self._told(x, rows, row, key + col, whole) for row, col, x in s.elements()]])
        return s

    def seen(self, s: Any, rows: Rows, key: Any) -> Any:
        """``s``, what `of` gave, with -infinity for keys that are not seen."""
        s = nv.where(s.cols + key < rows.end, s, -math.inf)
        return s if rows.begin is None else nv.where(s.cols + key >= rows.begin, s, -math.inf)

    def _told(self, x: Any, rows: Rows, row: Any, key: Any, whole: bool) -> Any:
        """``key``, unless its tile is ``whole``, and the row's query and head, may be beyond the last one: what is told
        is the last one then, or 0 where a sequence has none."""
        (head, query), sight = rows.told(row), rows.sight
        query = nv.min(query, nv.max(sight.queries - 1, 0))
        if not whole:
            key = nv.min(key, nv.max(sight.keys - 1, 0))
        return self.told_of(x, rows.batch, head, query, key)

    def told_of(self, x: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
        """The score of a query and a key with its bias, and what the caller's function makes of it."""
        if self._bias is not None:
            places = zip((batch, head, query, key), self._bias.shape, strict=True)
            x = x + nv.f32(self._bias[tuple(nv.min(place, extent - 1) for place, extent in places)])
        if self._kind.function is not None:
            told = x, batch, head, query, key, *self._operands
            x = _score(called("score", self._kind.function, *told))
        return x


def _score(found: Any) -> Any:
    """What a caller's function returned, as f32."""
    if getattr(found, "dtype", None) is nv.bool_:
        raise ArgumentError(
            "score returned a condition",
            rule="a function of scores returns what the score becomes",
            fix="return nv.where(condition, s, -math.inf)",
        )
    return nv.f32(found)
