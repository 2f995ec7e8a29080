"""Layouts by name: row-major, column-major, coordinates; and layouts of layouts."""

from __future__ import annotations

from typing import Any

from nvdsl.layout import nested
from nvdsl.layout.core import Layout
from nvdsl.layout.given import takes_layouts
from nvdsl.layout.nested import Shape, is_nested
from nvdsl.layout.strides import E, times


def row_major(*shape: Shape) -> Layout:
    """A layout whose last mode runs fastest, which is NumPy's order.

    >>> row_major(4, 8)
    Layout((4, 8), (8, 1))
    """
    strides: list[Any] = []
    step: Any = 1
    for mode in reversed(shape):
        if is_nested(mode):
            inner = row_major(*mode).stride
            strides.append(_scaled(inner, step))
        else:
            strides.append(step)
        step = times(nested.product(mode), step)
    return Layout(tuple(shape), tuple(reversed(strides)))


def column_major(*shape: Shape) -> Layout:
    """A layout whose first mode runs fastest, which is the order in which an integer counts through coordinates.

    >>> column_major(4, (2, 4))
    Layout((4, (2, 4)), (1, (4, 8)))
    """
    return Layout(tuple(shape), nested.compact(tuple(shape)))


def identity(*shape: Shape) -> Layout:
    """A layout that gives the coordinates themselves: mode i gives coordinate i.

    >>> identity(64, 32)(3, 5)
    E(3, 5)
    """
    axes = range(len(shape))
    basis = [E(*(int(i == j) for j in axes)) for i in axes]
    return Layout(
        tuple(shape), tuple(_scaled(nested.compact(mode), basis[i]) for i, mode in enumerate(shape))
    )


@takes_layouts
def make_layout(*layouts: Layout) -> Layout:
    """A layout whose modes are these layouts.

    >>> make_layout(Layout(4, 8), row_major(2, 3))
    Layout((4, (2, 3)), (8, (3, 1)))
    """
    return Layout(tuple(a.shape for a in layouts), tuple(a.stride for a in layouts))


def _scaled(stride: Any, by: Any) -> Any:
    return tuple(_scaled(d, by) for d in stride) if is_nested(stride) else times(stride, by)
