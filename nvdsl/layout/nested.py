"""Nested tuples of sizes and strides (CuTe's IntTuple, the paper's HTuple), and integers that stand for coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from nvdsl.layout.strides import E, X, is_power, times

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from nvdsl.layout.strides import Count
    from nvdsl.values.traced import Value
    from nvdsl.values.typing import PlainInt

Shape: TypeAlias = "PlainInt | Value | tuple[Shape, ...]"
"""A size, or a tuple of shapes."""

Stride: TypeAlias = "PlainInt | Value | E | X | tuple[Stride, ...]"
"""A stride for each size of a shape, nested as the shape is."""

Coordinate: TypeAlias = "Count | tuple[Coordinate, ...]"
"""An integer for any mode, or one coordinate for each of its modes."""

Selection: TypeAlias = "PlainInt | Value | None | tuple[Selection, ...]"
"""A coordinate in which None keeps a mode."""


def is_nested(x: Any) -> TypeIs[tuple[Any, ...]]:
    """Whether ``x`` is a tuple of modes; an `E` is one stride."""
    return isinstance(x, tuple) and not isinstance(x, E)


def flatten(x: Any) -> list[Any]:
    """The leaves, in order.

    >>> flatten((2, (3, 4)))
    [2, 3, 4]
    """
    return [leaf for entry in x for leaf in flatten(entry)] if is_nested(x) else [x]


def is_one(size: Any) -> bool:
    """Whether a size is known to be 1."""
    return isinstance(size, int) and size == 1


def product(shape: Any) -> Any:
    """The number of coordinates of a shape; traced where a size is."""
    count: Any = 1
    for size in flatten(shape):
        count = times(size, count)
    return count


def compact(shape: Any, start: Any = 1) -> Any:
    """The strides of a shape whose first mode runs fastest, without gaps.

    >>> compact(((2, 3), 4))
    ((1, 2), 6)
    """
    if not is_nested(shape):
        return start
    strides = []
    for mode in shape:
        strides.append(compact(mode, start))
        start = times(product(mode), start)
    return tuple(strides)


Leaves = list[tuple[Any, Any, Any]]
"""(size, how many coordinates run through before it advances, stride) of leaves; the size of the last one is None."""


def counted(shape: Any, stride: Any) -> Leaves:
    """The leaves of a layout, prepared for integers that count through its coordinates, the first mode fastest."""
    leaves = list(zip(flatten(shape), flatten(stride), strict=True))
    before: Any = 1
    found: Leaves = []
    for size, step in leaves[:-1]:
        found.append((size, before, step))
        before = times(size, before)
    return [*found, (None, before, leaves[-1][1])]


def counts(c: Any, leaves: Leaves) -> list[tuple[Any, Any]]:
    """(coordinate, stride) of each leaf at the integer ``c``. The last leaf takes what is left, without bound."""
    return [(over(c, before) if size is None else within(over(c, before), size), step) for size, before, step in leaves]


def over(c: Any, size: Any) -> Any:
    """``c // size``. A traced integer is shifted: right for negative ones too, without the fix-up of a division."""
    if not isinstance(c, int) and is_power(size):
        return c >> (size.bit_length() - 1) if size > 1 else c
    return c // size


def within(c: Any, size: Any) -> Any:
    """``c % size``."""
    if is_one(size):
        return 0
    return c & (size - 1) if not isinstance(c, int) and is_power(size) else c % size


def same(a: Any, b: Any) -> bool:
    """Whether two nested tuples are equal. A traced leaf equals only itself: its ``==`` would emit an operation."""
    if is_nested(a) or is_nested(b):
        return is_nested(a) and is_nested(b) and len(a) == len(b) and all(map(same, a, b))
    return a is b or (is_static(a) and is_static(b) and bool(a == b))


def is_static(x: Any) -> bool:
    """Whether all of ``x`` is known while tracing."""
    if isinstance(x, tuple):
        return all(map(is_static, x))
    return is_static(x.bits) and is_static(x.ints) if isinstance(x, X) else isinstance(x, int)
