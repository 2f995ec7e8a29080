"""Division by a number that only the host knows: the host does it once, the kernel multiplies.

A GPU has no instruction that divides integers: 32 bits take about twenty. The host finds ``ceil(2^63 / d)``, and the
kernel has ``n // d`` as the upper half of ``2n`` times that: two multiplications of 32 bits. It is exact for
``0 <= n < 2^31``, since the error is below ``2n * d / 2^64 < 1 / d`` (Granlund and Montgomery, "Division by invariant
integers using multiplication").
"""

from __future__ import annotations

from dataclasses import dataclass

import nvdsl as nv

_UNIT = (1 << 63) - 1


@dataclass(frozen=True)
class Divisor:
    """``value`` is 1 or more. Made in the host function by `of`, or of two others by `select`.

    ``high``, ``low``: the halves of ``ceil(2^63 / value)``; None where the value is a Python int, by which a compiler
    divides as well."""

    value: nv.Int
    high: nv.Int | None = None
    low: nv.Int | None = None

    @staticmethod
    def of(value: nv.Int) -> Divisor:
        """``value``: a Python int, or a traced i32 of the host function."""
        if isinstance(value, int):
            return Divisor(value)
        factor = nv.u64(_UNIT // nv.i64(value)) + 1
        return Divisor(value, nv.u32(factor >> 32), nv.u32(factor))

    @staticmethod
    def select(condition: nv.Bool, one: Divisor, other: Divisor) -> Divisor:
        """``one`` where the condition holds."""
        if not isinstance(condition, nv.Value):
            return one if condition else other
        pairs = zip(one._parts(), other._parts(), strict=True)
        return Divisor(*(nv.select(condition, x, y) for x, y in pairs))

    def divmod(self, n: nv.Int) -> tuple[nv.Int, nv.Int]:
        """Quotient and remainder of ``n``, which is 0 to 2^31 - 1."""
        if self.high is None or self.low is None:
            return n // self.value, n % self.value
        double = nv.u64(nv.u32(n) << 1)
        quotient = nv.i32(nv.u32(double * nv.u64(self.high) + (double * nv.u64(self.low) >> 32) >> 32))
        return quotient, n - quotient * self.value

    def _parts(self) -> tuple[nv.Int, nv.Int, nv.Int]:
        if self.high is None or self.low is None:
            factor = -(-(1 << 63) // self.value)
            return self.value, nv.u32(factor >> 32), nv.u32(factor & 0xFFFFFFFF)
        return self.value, self.high, self.low
