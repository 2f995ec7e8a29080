"""Layouts as matrices over F2, the integers modulo two: rank, inverses, and images of layouts that have bits.

A layout with bit strides is linear in the bits of its coordinates as far as sizes are powers of two and integer strides
don't carry. What is not is left out of an inverse, which is then shorter, or refused.
"""

from __future__ import annotations

from typing import Any

from nvdsl.errors import layout_error
from nvdsl.layout.core import Layout, from_modes
from nvdsl.layout.given import takes_layouts
from nvdsl.layout.nested import compact, flatten
from nvdsl.layout.strides import X, is_power, times, value


@takes_layouts
def rank_f2(layout: Layout, mask: int = -1) -> int:
    """The rank over F2 of a layout's addresses. The layout reaches 2 to the power of the rank different addresses.

    ``mask``: the bits of an address that count; 0x7c asks how many of the 32 banks of shared memory a layout in bytes
    reaches. Raises LayoutError where a layout is not linear over F2: sizes or integer strides that are no powers of
    two, or that carry.

    >>> rows = Layout(8, X(0x90))
    >>> 2 ** rank_f2(rows), 2 ** rank_f2(rows, 0x7c), 2 ** rank_f2(Layout(8, 128), 0x7c)
    (8, 8, 1)
    """
    basis = _Basis()
    for _, image in _digits(layout, whole=True):
        basis.add(image & mask, 0)
    return len(basis.rows)


def right_inverse(layout: Layout) -> Layout:
    """`inverses.right_inverse` of a layout with bits."""
    basis = _Basis()
    digits = _digits(layout, whole=False)
    for i, (_, image) in enumerate(digits):
        basis.add(image, 1 << i)
    combined: list[int] = []  # for each bit of the address, the digits that give it alone
    while True:
        left, chosen = basis.reduce(1 << len(combined), 0)
        if left:
            break
        combined.append(chosen)
    weights = [weight for weight, _ in digits]
    while True:  # a digit of several combinations is a bit of the index, so its weight is a power of two
        shared = [c for c in combined if c.bit_count() > 1]
        several = {i for i in range(len(digits)) if any(c >> i & 1 for c in shared)}
        wrong = [j for j, c in enumerate(combined) if any(c >> i & 1 and not is_power(weights[i]) for i in several)]
        if not wrong:
            break
        combined = combined[: wrong[0]]
    modes = []
    for c in combined:
        mine = [i for i in range(len(digits)) if c >> i & 1]
        weight = sum(weights[i] for i in mine)
        modes.append((2, X(weight) if several.intersection(mine) else weight))
    return from_modes(modes)


def left_inverse(layout: Layout) -> Layout:
    """`inverses.left_inverse` of a layout with bits."""
    basis = _Basis()
    for weight, image in _digits(layout, whole=True):
        basis.add(image, weight)
    pivots = basis.reduced()
    top = max((image.bit_length() for image in pivots), default=0)
    modes = [(2, X(0)) for _ in range(top)]
    for image, weight in pivots.items():
        modes[image.bit_length() - 1] = 2, X(weight)
    return from_modes(modes)


def image(layout: Layout) -> Layout:
    """A layout with the same addresses whose strides are powers of two, in increasing order.

    Raises LayoutError where a layout's addresses are not all combinations of some bits.
    """
    basis = _Basis()
    for _, place in _digits(layout, whole=True):
        basis.add(place, 0)
    found = sorted(basis.reduced())
    if not all(map(is_power, found)):
        raise _not_linear(layout, "its addresses don't fill whole bits")
    return from_modes([(2, bit) for bit in found])


class _Basis:
    """Vectors in echelon form, by their highest bit; each with the combination that gave it."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int]] = {}

    def reduce(self, vector: int, combination: int) -> tuple[int, int]:
        for top in sorted(self.rows, reverse=True):
            if vector >> top & 1:
                vector, combination = vector ^ self.rows[top][0], combination ^ self.rows[top][1]
        return vector, combination

    def add(self, vector: int, combination: int) -> None:
        vector, combination = self.reduce(vector, combination)
        if vector:
            self.rows[vector.bit_length() - 1] = vector, combination

    def reduced(self) -> dict[int, int]:
        """Vector: combination. No vector has the highest bit of another."""
        found = {}
        for top, (vector, combination) in self.rows.items():
            for other in sorted((o for o in self.rows if o < top), reverse=True):
                if vector >> other & 1:
                    vector, combination = vector ^ self.rows[other][0], combination ^ self.rows[other][1]
            found[vector] = combination
        return found


def _digits(layout: Layout, *, whole: bool) -> list[tuple[int, int]]:
    """(weight in the index, address) of each bit of the coordinates.

    ``whole``: refuse what is not linear. Else its bits are left out, as if those coordinates were always 0.
    """
    if layout.is_coordinates or not layout.is_static:
        raise _not_linear(layout, "it has coordinates or dynamic extents")
    leaves = list(zip(layout.leaves(), flatten(compact(layout.shape)), strict=True))
    found: list[tuple[int, int]] = []
    ints = 0  # bits of the address that integer strides take
    others = 0
    for (size, stride), _ in leaves:
        if isinstance(stride, X):
            others |= _spread(size, stride.bits)
    for (size, stride), weight in leaves:
        count = size.bit_length() - 1
        if whole and not is_power(size):
            raise _not_linear(layout, f"the size {size} is no power of two")
        step = stride.ints if isinstance(stride, X) else stride
        if step and count:
            taken = step * ((1 << count) - 1) if is_power(step) else -1
            if taken == -1 or taken & (ints | others):
                if whole:
                    raise _not_linear(layout, f"the stride {stride} carries")
                continue
            ints |= taken
        found += [(weight << t, value(times(1 << t, stride))) for t in range(count)]
    return found


def _spread(size: int, bits: Any) -> int:
    """The bits of an address that a mode of bits can set."""
    mask = 0
    for t in range((size - 1).bit_length()):
        mask |= bits << t
    return mask


def _not_linear(layout: Layout, why: str) -> Exception:
    return layout_error(
        f"{layout} is not linear over F2: {why}",
        rule="sizes are powers of two, and integer strides powers of two whose sums don't carry",
        fix="ask one mode of the layout, or a layout of integers without X",
    )
