"""The exponentials of a row's elements, and their sum.

Of elements of 16 bits an exponential is one multiply-add and ``ex2.approx``: ``2**(x f - b)``, ``f`` being log2(e) and
``b`` the rounded product of ``f`` and the greatest element, or one near it. What the rounding left over is the same for
all elements: it cancels in a softmax, and is taken off logarithms. Elements of f32 are subtracted first.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.rows.row import Parts, Row, Term
from nvdsl.kernels.rows.staged import Elements

_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)

_FAR = 2.0**16
"""Magnitude of bf16 from which on elements that differ at all do so by so much that the lesser one's exponential is 0.
The factor is 1 then: a product that is rounded would be off by as much as elements are, or infinite."""

_HELD = 32
"""Exponentials that a thread with twice as many registers holds."""


@dataclass(frozen=True)
class Exponentials:
    """``made`` times ``scale`` is the softmax of the row: of an access, this thread's elements. ``highest``: the
    greatest element; ``logarithm``: of the sum of all exponentials relative to it. ``sums``: of the terms that were
    given besides."""

    made: Parts
    scale: Any
    highest: Any
    logarithm: Any
    sums: tuple[Any, ...]

    @staticmethod
    def of(row: Row, given: Elements, *more: Term) -> Exponentials:
        """Blocks of a cluster exchange numbers once: each warp takes its own greatest element at first."""
        about = functools.partial(_Base, narrow=given.dtype.bytes < 4)
        if row.exchange is None:
            highest = row.max(given)
            base = about(highest)
            made = _held(row, base.exponentials(given))
            total, *sums = row.sums(_total(row, made), *(row.total(term, again=True) for term in more))
            logarithm = nv.math.fma(base.left, -_LN_2, nv.math.log(total))
            return Exponentials(made, nv.math.rcp_approx(total), highest, logarithm, tuple(sums))
        base = about(nv.max(nv.warp.max(row.highest(given)), nv.f32.min))  # of a warp that has nothing
        made = _held(row, base.exponentials(given))
        mine = nv.warp.sum((_total(row, made), *map(row.total, more)))
        bases, *taken = row.exchange.of_all((base.value, *mine), [nv.f32.min, 0.0, *[0.0] * len(more)])
        highest = row.exchange.greatest(bases)
        taken[0] = [one * about(other).relative(highest) for other, one in zip(bases, taken[0], strict=True)]
        total, *sums = row.exchange.sum(*taken)
        scale = nv.math.rcp_approx(total) * base.relative(highest)
        return Exponentials(made, scale, highest, nv.math.log(total), tuple(sums))


@dataclass(frozen=True)
class _Base:
    """A number that exponentials are relative to; ``narrow``: those of elements of 16 bits."""

    value: Any
    narrow: bool

    @property
    def factor(self) -> Any:
        return nv.where(nv.abs(self.value) < _FAR, _LOG2_E, 1.0)

    @property
    def left(self) -> Any:
        """What the rounded product lacks."""
        return nv.math.fma(self.value, self.factor, -(self.value * self.factor)) if self.narrow else nv.f32(0.0)

    def exponentials(self, given: Parts) -> Parts:
        if not self.narrow:
            return lambda step: nv.math.exp_approx(given(step) - self.value)
        factor, product = self.factor, self.value * self.factor
        return lambda step: nv.math.exp2_approx(nv.math.fma(given(step), factor, -product))

    def relative(self, highest: Any) -> Any:
        """What they are multiplied with to be relative to ``highest``."""
        return nv.math.exp2_approx((self.value - highest) * _LOG2_E - self.left)


def _total(row: Row, made: Parts) -> Any:
    return row.total(lambda total, step: total + made(step))


def _held(row: Row, parts: Parts) -> Parts:
    """The same, computed once where a thread has registers for them."""
    config = row.config
    if config.keep != "registers" and (config.steps * config.wide > _HELD or config.registers < 2 * _HELD):
        return parts
    return functools.cache(parts)
