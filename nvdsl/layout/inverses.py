"""Complement and inverses: what a layout leaves out, and where in it an address lies.

Sources: Cecka, arXiv 2603.02298, sections 3.4 and 3.5; CUTLASS, media/docs/cpp/cute/02_layout_algebra.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvdsl.errors import layout_error
from nvdsl.layout import bits
from nvdsl.layout.algebra import coalesce
from nvdsl.layout.core import Layout, from_modes
from nvdsl.layout.given import takes_layouts
from nvdsl.layout.make import make_layout
from nvdsl.layout.nested import Shape, compact, flatten, is_one, is_static, over
from nvdsl.layout.strides import E, is_zero, times

Modes = list[tuple[Any, Any]]

Indexed = Sequence[tuple[Any, Any, Any]]
"""(stride, size, how far apart in the domain) of modes."""


@takes_layouts
def complement(a: Layout, bound: Shape = 1) -> Layout:
    """The layout of what ``a`` leaves out. Its sums with ``a`` are all different, in increasing order, up to ``bound``.

    ``make_layout(a, complement(a, bound))`` covers 0 .. bound - 1 (rounded up to whole periods), but for the holes of
    a padded layout, which stay holes. ``bound`` may be traced; for coordinates it is a number for each axis.

    >>> str(complement(Layout(4, 2), 24)), str(complement(Layout((2, 2), (1, 6)), 24))
    ('(2,3):(1,8)', '(3,2):(2,12)')

    Raises LayoutError where a's modes overlap.
    """
    if a.is_coordinates:
        axes = _axes(a)
        bounds = bound if isinstance(bound, tuple) else (bound,) * len(axes)
        left = [complement(_plain(axis), n) for axis, n in zip(axes, bounds, strict=True)]
        return make_layout(*(_on_axis(rest, i, len(axes)) for i, rest in enumerate(left)))
    if a.has_bits:
        a = bits.image(a)
    if not is_static(a.stride):
        raise _overlap(a, "its strides are dynamic")
    out: Modes = []
    at: Any = 1
    modes = [(d, s) for s, d in a.leaves() if not is_zero(d) and not is_one(s)]
    for stride, size in sorted(modes, key=lambda mode: mode[0]):
        if not isinstance(at, int):
            raise _overlap(a, "a dynamic extent is not its outermost mode")
        if stride < at:
            raise _overlap(a, f"the mode of stride {stride} starts before {at}, where the one below it ends")
        out.append((stride // at, at))
        at = times(size, stride)
    out.append((_ceil(bound, at), at))
    return coalesce(from_modes(out))


def _ceil(a: Any, b: Any) -> Any:
    if isinstance(b, int) and b == 1:
        return a
    return over(a + (b - 1), b)


def _overlap(a: Layout, why: str) -> Exception:
    return layout_error(
        f"{a} has no complement: {why}",
        rule="a complement is made of the gaps between modes that don't overlap",
        fix="check the strides, or take the complement of one mode",
    )


@takes_layouts
def right_inverse(a: Layout) -> Layout:
    """The layout R with ``a(R(i)) == i`` for i from 0 on, as far as a's values have no gap.

    If ``a`` gives coordinates, R takes coordinates: ``a(R(i, j)) == (i, j)``. If ``a`` has bits, R has bits, and
    reaches as far as powers of two do.

    >>> str(right_inverse(Layout((4, 8), (8, 1)))), str(right_inverse(Layout((4, 8), (1, 5))))
    ('(8,4):(4,1)', '4:1')
    """
    if a.is_coordinates:
        return make_layout(*(coalesce(from_modes(_prefix(axis))) for axis in _axes(a)))
    if a.has_bits:
        return coalesce(bits.right_inverse(a))
    return coalesce(from_modes(_prefix(_indexed(a))))


def _indexed(a: Layout) -> Indexed:
    if not (is_static(a.stride) and is_static(a.shape)):
        raise _no_inverse(a, "sizes and strides are not all known while tracing")
    steps = flatten(compact(a.shape))
    return [(d, s, r) for (s, d), r in zip(a.leaves(), steps, strict=True) if not is_one(s)]


def _prefix(modes: Indexed) -> Modes:
    out, at = [], 1
    for stride, size, step in sorted(m for m in modes if m[0] > 0):
        if stride == at:
            out.append((size, step))
            at = size * stride
    return out


@takes_layouts
def left_inverse(a: Layout) -> Layout:
    """The layout L with ``L(a(i)) == i`` for all i: where in ``a`` an address, or a coordinate, lies.

    What ``a`` doesn't reach has no meaning. Modes of stride 0 are left out: then ``a(L(a(i))) == a(i)``.

    >>> str(left_inverse(Layout((4, 8), (1, 5))))
    '(5,8):(1,4)'

    Raises LayoutError where no layout is the inverse: modes that overlap, or don't divide one another.
    """
    if a.is_coordinates:
        return make_layout(*(_filled(a, axis) for axis in _axes(a)))
    if a.has_bits:
        return coalesce(bits.left_inverse(a))
    return _filled(a, _indexed(a))


def _filled(a: Layout, modes: Indexed) -> Layout:
    """The inverse of modes with gaps: in a gap, the mode before goes on."""
    out: Modes = []
    at, before, end = 1, 0, 1
    for stride, size, step in sorted(m for m in modes if not is_zero(m[0])):
        if stride % at or stride < end:
            raise _no_inverse(a, f"the mode {size}:{stride} starts within the ones below it, or is no multiple of them")
        out.append((stride // at, before))
        at, before, end = stride, step, size * stride
    out.append((end // at, before))
    return coalesce(from_modes(out))


def _no_inverse(a: Layout, why: str) -> Exception:
    return layout_error(
        f"{a} has no inverse that is a layout: {why}",
        rule="sorted by stride, each mode is a multiple of the one before and starts where that one has ended",
        fix="invert one mode of it, or a layout without overlaps",
    )


def _axes(a: Layout) -> list[list[tuple[Any, Any, Any]]]:
    """a's modes by the axis of coordinates that they move along."""
    axes: list[list[tuple[Any, Any, Any]]] = [[] for _ in range(a.axes)]
    for stride, size, step in _indexed(a):
        if is_zero(stride):
            continue
        moved = [i for i, n in enumerate(stride) if n]
        if len(moved) > 1:
            raise _no_inverse(a, f"the stride {stride!r} moves along several axes")
        for i in moved:
            axes[i].append((stride[i], size, step))
    return axes


def _plain(axis: Indexed) -> Layout:
    return from_modes([(size, stride) for stride, size, _ in axis])


def _on_axis(a: Layout, axis: int, axes: int) -> Layout:
    basis = E(*(int(i == axis) for i in range(axes)))
    return from_modes([(s, times(d, basis)) for s, d in a.leaves()])
