"""What a layout means for memory: how wide accesses can be, and what the banks of shared memory make of them."""

from __future__ import annotations

from collections.abc import Sequence

from nvdsl.errors import layout_error
from nvdsl.layout.core import Layout
from nvdsl.layout.given import takes_layouts
from nvdsl.layout.inverses import right_inverse
from nvdsl.layout.nested import Stride, is_nested
from nvdsl.layout.strides import X, is_power, times, value

BANKS, BANK_BYTES = 32, 4
"""Shared memory has 32 banks of 4 bytes (CUDA C++ Programming Guide, compute capability 5.x and later)."""


@takes_layouts
def max_common_vector(a: Layout, b: Layout) -> int:
    """How many elements, from the first on, lie in a row in both layouts, and so can be copied by one access.

    Both give addresses in elements for the same coordinates (`upcast` makes elements of bytes). The largest K with
    ``right_inverse(a)(k) == right_inverse(b)(k)`` for all k < K (Cecka, arXiv 2603.02298, section 3.4.2).

    >>> from nvdsl.layout import column_major, row_major
    >>> rows = row_major(8, 64)
    >>> max_common_vector(rows, Layout((8, 64), (72, 1))), max_common_vector(rows, column_major(8, 64))
    (64, 1)
    """
    count = 1
    for (m, d), (n, e) in zip(right_inverse(a).leaves(), right_inverse(b).leaves(), strict=False):
        alike = 0
        while alike < min(m, n) and value(times(alike, d)) == value(times(alike, e)):
            alike += 1
        count *= alike
        if alike < max(m, n):
            break
    return count


@takes_layouts
def upcast(a: Layout, count: int) -> Layout:
    """The layout in units of ``count`` of its addresses: bytes to elements of ``count`` bytes.

    Raises LayoutError where a stride is no multiple, and for a count that is no positive int.

    >>> str(upcast(Layout((8, 8), (128, 2)), 2))
    '(8,8):(64,1)'
    """
    if not isinstance(count, int) or count < 1:
        raise layout_error(f"{a} in units of {count!r}", rule="a unit is a number of addresses, 1 or more",
                           fix="upcast(layout, itemsize)")  # fmt: skip

    def smaller(stride: Stride) -> Stride:
        if is_nested(stride):
            return tuple(map(smaller, stride))
        if isinstance(stride, X) and is_power(count) and not stride.bits % count and not stride.ints % count:
            return X(stride.bits // count, stride.ints // count)
        if isinstance(stride, int) and not stride % count:
            return stride // count
        raise layout_error(
            f"{a} in units of {count}",
            rule=f"each stride is a multiple of the unit, and a stride of bits needs a power of two; {stride!r} is not",
            fix="give the layout in smaller units",
        )

    return Layout(a.shape, smaller(a.stride))


@takes_layouts
def bank_conflicts(lanes: Layout, bytes: int = BANK_BYTES) -> int:
    """How many times longer an access to shared memory takes than it has to: 1 without conflicts.

    ``lanes``: the first byte of each lane's access, a layout of the lanes of a warp, or of the 8 rows of a matrix of
    ldmatrix and stmatrix. ``bytes``: of one lane, 1 to 16. Accesses of 8 and 16 bytes take half and a quarter of the
    lanes at a time. In each such group the lanes that need different 4-byte words of one bank wait for one another; the
    worst group counts.

    >>> bank_conflicts(Layout(8, 128), 16), bank_conflicts(Layout(8, 144), 16)   # rows of 128 bytes; padded by 16
    (8, 1)
    """
    if bytes not in (1, 2, 4, 8, 16) or lanes.is_coordinates or not lanes.is_static:
        raise layout_error(
            f"bank conflicts of {lanes} with {bytes} bytes a lane",
            rule="lanes access 1, 2, 4, 8 or 16 bytes each, at addresses that are known",
            fix="give a layout of byte offsets, with Python ints as sizes and strides",
        )
    return conflicts_at([lanes(i) for i in range(lanes.size)], bytes)


def conflicts_at(starts: Sequence[int], bytes: int) -> int:
    """`bank_conflicts` of lanes whose accesses start at the bytes ``starts``."""
    group = BANKS * BANK_BYTES // max(bytes, BANK_BYTES)
    return max(_ways(starts[i : i + group], bytes) for i in range(0, len(starts), group))


def _ways(starts: Sequence[int], bytes: int) -> int:
    """Different words of the bank that has the most."""
    words = {byte // BANK_BYTES for start in starts for byte in range(start, start + bytes)}
    banks = [0] * BANKS
    for word in words:
        banks[word % BANKS] += 1
    return max(banks)
