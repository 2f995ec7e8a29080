"""What a stride can be: an integer, a coordinate `E`, or bits that add without carry `X`.

A layout needs two things of its strides: their sum, and their product with a count. Integers are addresses,
coordinates are what TMA and register fragments speak, and bits are what swizzles speak (Cecka, "CuTe Layout
Representation and Algebra", arXiv 2603.02298, section 2.3.1, "integer-semimodules"). Counts and sums may be Python
ints, NumPy arrays, or traced values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from nvdsl.errors import layout_error
from nvdsl.errors.records import dataclass

if TYPE_CHECKING:
    import numpy as np

    from nvdsl.values.traced import Value
    from nvdsl.values.typing import PlainInt

Count: TypeAlias = "PlainInt | np.ndarray | Value"
"""What a stride is multiplied with: an integer, many of them, or a traced one."""


class E(tuple):
    """A coordinate as a stride. ``E(0, 1)`` is the basis vector of axis 1, which CuTe writes ``1@1``.

    >>> 3 * E(0, 2) + E(1, 0)
    E(1, 6)
    """

    __slots__ = ()

    def __new__(cls, *entries: Count) -> E:
        return tuple.__new__(cls, entries)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __add__(self, other: Any) -> E:
        return plus(self, other)

    __radd__ = __add__

    def __mul__(self, count: Any) -> E:
        return E(*(times(count, entry) for entry in self))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"E({', '.join(map(str, self))})"


@dataclass(frozen=True, slots=True)
class X:
    """Bits that add without carry: ``+`` is exclusive or, and a product with a count is the carry-less product.

    ``X(0x90)`` is the stride of the rows of a tile with the 128-byte swizzle: row r starts at byte 128 r, and its
    16-byte units are exchanged by ``16 r``. Over integers the same number, 144, is a row that is padded by 16 bytes.
    ``ints`` is what ordinary strides have added to it; `value` gives the sum.

    >>> 3 * X(0x90) + X(0x10)
    X(0x1a0)
    """

    bits: Count
    ints: Count = 0

    def __add__(self, other: Any) -> X:
        return plus(self, other)

    __radd__ = __add__

    def __mul__(self, count: Any) -> X:
        return X(carryless(count, self.bits), times(count, self.ints))

    __rmul__ = __mul__

    def __int__(self) -> int:
        return int(value(self))

    def __repr__(self) -> str:
        bits = f"{self.bits:#x}" if isinstance(self.bits, int) else str(self.bits)
        return f"X({bits})" if is_zero(self.ints) else f"X({bits}, {self.ints})"


def is_zero(x: Any) -> bool:
    """Whether ``x`` is the Python int 0, the stride that adds nothing in every kind."""
    return isinstance(x, int) and x == 0


def is_power(x: Any) -> bool:
    """Whether ``x`` is a Python int and a power of two."""
    return isinstance(x, int) and x > 0 and x & (x - 1) == 0


def times(count: Any, stride: Any) -> Any:
    """``count * stride``. Zeros and ones emit nothing where the count is traced."""
    if isinstance(stride, (E, X)):
        return stride * count
    for one, other in ((count, stride), (stride, count)):
        if isinstance(one, int) and one in (0, 1):
            return other if one else 0
    return count * stride


def plus(a: Any, b: Any) -> Any:
    """``a + b`` of two sums of strides."""
    if is_zero(a) or is_zero(b):
        return b if is_zero(a) else a
    if isinstance(a, E) or isinstance(b, E):
        if not (isinstance(a, E) and isinstance(b, E) and len(a) == len(b)):
            raise layout_error(
                f"the sum of {a!r} and {b!r}",
                rule="a coordinate adds to coordinates of as many axes",
                fix="give all strides of a layout as E with the same number of entries",
            )
        return E(*(plus(x, y) for x, y in zip(a, b, strict=True)))
    if isinstance(a, X) or isinstance(b, X):
        x, y = (z if isinstance(z, X) else X(0, z) for z in (a, b))
        return X(_xor(x.bits, y.bits), plus(x.ints, y.ints))
    return a + b


def _xor(a: Any, b: Any) -> Any:
    return b if is_zero(a) else a if is_zero(b) else a ^ b


def carryless(count: Any, bits: Any) -> Any:
    """The carry-less product: one shifted copy of ``count`` for each bit of ``bits``, combined by exclusive or."""
    product: Any = 0
    if isinstance(count, int):
        count, bits = bits, count  # shift the stride: also right for a stride with few bits
    for i in range(bits.bit_length()):
        if bits >> i & 1:
            product = _xor(product, count << i if i else count)
    return product


def value(x: Any) -> Any:
    """A sum of strides as a number: the bits and the integers of an `X` together. Coordinates stay what they are."""
    return plus(x.bits, x.ints) if isinstance(x, X) else x
