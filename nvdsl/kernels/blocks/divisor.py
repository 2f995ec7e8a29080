"""Division by a number that only the host knows: the host does it once, the kernel multiplies.

A GPU has no instruction that divides integers: 32 bits take about twenty. With ``2^(s-32) < d <= 2^(s-31)`` the host
finds ``m = ceil(2^s / d)``, which has 32 bits, and the kernel has ``n // d`` as ``n * m`` shifted by ``s``: one
multiplication. It is exact for ``0 <= n < 2^31``, since ``n * m / 2^s`` is above ``n / d`` by less than ``n / 2^s``,
and so by less than ``1 / d`` (Granlund and Montgomery, "Division by invariant integers using multiplication").
"""

from __future__ import annotations

import nvdsl as nv
from nvdsl.errors.records import dataclass

_BITS = 31
"""Of a dividend."""


@dataclass(frozen=True)
class Divisor:
    """``value`` is 1 or more. Made in the host function by `of`, or of two others by `select`.

    ``factor``, ``shift``: m and s, u32; None where the value is a Python int, by which a compiler divides as well."""

    value: nv.Int
    factor: nv.Int | None = None
    shift: nv.Int | None = None

    @staticmethod
    def of(value: nv.Int) -> Divisor:
        """``value``: a Python int, or a traced i32 of the host function."""
        if isinstance(value, int):
            return Divisor(value)
        shift: nv.Int = nv.i32(0)
        left: nv.Int = value - 1
        for bits in (16, 8, 4, 2, 1):  # the bits of value - 1, counted by halves
            more = left >= 1 << bits
            shift, left = shift + nv.select(more, bits, 0), nv.select(more, left >> bits, left)
        shift = shift + left
        shift = shift + _BITS
        power = nv.u64(1) << nv.u64(shift)
        return Divisor(value, nv.u32((power - 1) // nv.u64(value) + 1), nv.u32(shift))

    @staticmethod
    def select(condition: nv.Bool, one: Divisor, other: Divisor) -> Divisor:
        """``one`` where the condition holds."""
        if not isinstance(condition, nv.Value):
            return one if condition else other
        pairs = zip(one._parts(), other._parts(), strict=True)
        return Divisor(*(nv.select(condition, x, y) for x, y in pairs))

    def divmod(self, n: nv.Int) -> tuple[nv.Int, nv.Int]:
        """Quotient and remainder of ``n``, which is 0 to 2^31 - 1."""
        if self.factor is None or self.shift is None:
            return n // self.value, n % self.value
        product = nv.u64(nv.u32(n)) * nv.u64(self.factor)
        quotient = nv.i32(product >> nv.u64(self.shift))
        return quotient, n - quotient * self.value

    def _parts(self) -> tuple[nv.Int, nv.Int, nv.Int]:
        if self.factor is None or self.shift is None:
            shift = _BITS + int(self.value - 1).bit_length()
            return self.value, nv.u32(-(-(1 << shift) // self.value)), nv.u32(shift)
        return self.value, self.factor, self.shift
