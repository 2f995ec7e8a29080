"""`Layout`: a function from coordinates to addresses, coordinates or swizzled bytes, written shape : stride.

A shape is a size or a tuple of shapes, a stride has the same profile, and the layout is the sum of coordinate times
stride over all leaves. An integer is a coordinate of every shape: it counts through the coordinates with the first
mode fastest, and the last mode goes on without bound. Sources: Cecka, "CuTe Layout Representation and Algebra", arXiv
2603.02298, section 2; CUTLASS, media/docs/cpp/cute/01_layout.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from nvdsl.errors import layout_error
from nvdsl.layout import nested
from nvdsl.layout.nested import flatten, is_nested, is_static
from nvdsl.layout.strides import E, X, is_zero, plus, times, value

if TYPE_CHECKING:
    from nvdsl.layout.nested import Coordinate, Selection, Shape, Stride

Tiler: TypeAlias = "Layout | int | None | tuple[Tiler, ...]"
"""What selects elements: a Layout, an int n for ``n:1``, None for all, or a tuple of tilers, one for each mode."""

below: dict[str, Callable[..., Any]] = {}
"""What a layout's operators and its text do. The modules that are built on this one enter it here."""


class Layout:
    """``Layout((4, 8), (8, 1))``: 4 rows of 8 elements. ``Layout(8)`` has stride 1.

    ``shape``: positive ints; a traced size is a dynamic extent, which evaluation takes anywhere and the algebra as the
    last leaf of a mode. ``stride``: of the same profile; ints (or traced integers), coordinates `E`, or bits `X`, which
    may stand beside ints. A layout is immutable and can be a key of a dict. ``layout(c)`` evaluates it,
    ``layout[i]`` is one of its modes, ``layout @ other`` is `composition` and ``layout / tiler`` is `zipped_divide`.

    Raises LayoutError where shape and stride don't match, and for a shape of several modes without strides: say
    `row_major` or `column_major`.
    """

    __slots__ = ("_axes", "_counted", "shape", "stride")
    shape: Any
    stride: Any
    _axes: int  # of coordinates; 0: of none
    _counted: dict[int | None, Any]  # leaves of a mode (None: of all) with what an integer is divided by

    def __init__(self, shape: Shape, stride: Stride | None = None) -> None:
        shape = _plain(shape)
        if stride is None:
            if len(flatten(shape)) != 1:
                raise layout_error(
                    f"a layout of shape {shape} without strides",
                    rule="several modes lie in memory in more than one order, so their strides are said",
                    fix=f"row_major{shape} or column_major{shape}",
                )
            stride = nested.compact(shape)
        stride = _plain(stride)
        _check(shape, stride)
        axes = max((len(d) for d in flatten(stride) if isinstance(d, E)), default=0)
        object.__setattr__(self, "_axes", axes)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)
        object.__setattr__(self, "_counted", {})

    def __setattr__(self, name: str, what: Any) -> None:
        raise AttributeError(f"a Layout is immutable: {name} can't be set")

    # --- evaluation

    def __call__(self, *coordinate: Coordinate) -> Any:
        """Evaluate the layout at ``coordinate``: one integer, or one coordinate for each mode.

        It gives an int or a traced integer for addresses and bits, and an `E` for coordinates. Coordinates are not
        checked against the shape: a mode goes on with its strides.
        """
        return value(self.element(coordinate[0] if len(coordinate) == 1 else coordinate))

    def element(self, coordinate: Coordinate) -> Any:
        """Evaluate like a call, but leave bits an `X`, which can be added to the offset of a slice."""
        terms = self._terms(coordinate)
        if not self._axes:
            return _total(terms)
        return E(*(_total([(n, d[axis]) for n, d in terms if not is_zero(d)]) for axis in range(self._axes)))

    @property
    def zero(self) -> Any:
        """The stride that adds nothing: 0, or a coordinate of zeros."""
        return E(*(0,) * self._axes) if self._axes else 0

    def _terms(self, coordinate: Any) -> list[tuple[Any, Any]]:
        """(count, stride) of each leaf."""
        given = coordinate if isinstance(coordinate, tuple) else (coordinate,)
        if any(x is None for x in flatten(tuple(given))):
            raise layout_error(
                f"{self} at {coordinate}",
                rule="None keeps a mode, and what the others add is an offset that must not get lost",
                fix="rest, offset = layout.slice(coordinate)",
            )
        try:
            if given is not coordinate:
                return nested.counts(coordinate, self._leaves_of(None))
            found: list[tuple[Any, Any]] = []
            for i, (c, shape) in enumerate(zip(given, self._modes(), strict=True)):
                if isinstance(c, tuple):
                    found += Layout(shape, self[i].stride)._terms(c)
                else:
                    found += nested.counts(c, self._leaves_of(i))
            return found
        except (TypeError, ValueError) as error:
            raise (error if hasattr(error, "rule") else self._unfit(coordinate)) from None

    def _modes(self) -> tuple[Any, ...]:
        if not is_nested(self.shape):
            raise ValueError
        return self.shape

    def _leaves_of(self, mode: int | None) -> Any:
        if mode in self._counted:
            return self._counted[mode]
        part = self if mode is None else self[mode]
        leaves = nested.counted(part.shape, part.stride)
        if self.is_static:  # what is traced belongs to the place where it was traced
            self._counted[mode] = leaves
        return leaves

    def _unfit(self, coordinate: Any) -> Exception:
        return layout_error(
            f"the coordinate {coordinate} of {self}",
            rule="a coordinate has the profile of the shape; an integer stands for any mode",
            fix=f"give {len(self)} coordinates, or one integer that counts through all {self.size} elements",
        )

    def slice(self, coordinate: Selection) -> tuple[Layout, Any]:
        """Fix some coordinates: returns (the layout of the modes at which ``coordinate`` is None, what the others add).

        The offset is an int or a traced integer, an `E`, or an `X`, and adds to what the rest's `element` gives:
        bits must be added to bits, before they become a number.

        >>> Layout((4, 8), (8, 1)).slice((3, None))
        (Layout(8, 1), 24)
        """
        kept: list[tuple[Any, Any]] = []

        def walk(c: Any, shape: Any, stride: Any) -> Any:
            if c is None:
                kept.append((shape, stride))
                return 0
            if is_nested(c):
                total: Any = 0
                for inner, size, step in zip(c, shape, stride, strict=True):
                    total = plus(total, walk(inner, size, step))
                return total
            return Layout(shape, stride).element(c)

        try:
            offset = walk(coordinate, self.shape, self.stride)
        except (TypeError, ValueError) as error:
            raise (error if hasattr(error, "rule") else self._unfit(coordinate)) from None
        return from_modes(kept, self.zero), plus(offset, self.zero)

    # --- what it is made of

    @property
    def size(self) -> Any:
        """How many coordinates it has."""
        return nested.product(self.shape)

    @property
    def cosize(self) -> int:
        """One more than the largest address. Raises LayoutError for coordinates, negative strides, dynamic extents."""
        self._static("cosize")
        strides = [value(d) for d in flatten(self.stride)]
        if self.is_coordinates or any(d < 0 for d in strides):
            raise layout_error(f"the cosize of {self}", rule="addresses from 0 on have a largest one")
        if not self.has_bits:
            return 1 + sum((s - 1) * d for s, d in self.leaves())
        return 1 + max(self(i) for i in range(self.size))

    @property
    def rank(self) -> int:
        """How many modes it has."""
        return len(self)

    @property
    def axes(self) -> int:
        """How many entries its coordinates have; 0 for addresses."""
        return self._axes

    @property
    def is_coordinates(self) -> bool:
        """Whether it gives coordinates."""
        return self._axes > 0

    @property
    def has_bits(self) -> bool:
        """Whether a stride is an `X`."""
        return any(isinstance(d, X) for d in flatten(self.stride))

    @property
    def is_static(self) -> bool:
        """Whether all sizes and strides are known while tracing."""
        return is_static(self.shape) and is_static(self.stride)

    def _static(self, what: str) -> None:
        if not self.is_static:
            raise layout_error(
                f"{what} of {self}",
                rule=f"{what} needs sizes and strides that are known while tracing",
                fix="ask the layout of a tile, whose sizes are Python ints",
            )

    def leaves(self) -> list[tuple[Any, Any]]:
        """The (size, stride) of every leaf."""
        return list(zip(flatten(self.shape), flatten(self.stride), strict=True))

    def __len__(self) -> int:
        return len(self.shape) if is_nested(self.shape) else 1

    def __getitem__(self, mode: int) -> Layout:
        if not is_nested(self.shape) and mode in (0, -1):
            return self
        return Layout(self.shape[mode], self.stride[mode]) if -len(self) <= mode < len(self) else self._no(mode)

    def _no(self, mode: int) -> Layout:
        raise IndexError(f"mode {mode} of {self}, which has {len(self)}")

    def __iter__(self) -> Iterator[Layout]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        return nested.same(self.shape, other.shape) and nested.same(self.stride, other.stride)

    def __hash__(self) -> int:
        return hash((self.shape, self.stride))

    def __reduce__(self) -> Any:
        return Layout, (self.shape, self.stride)

    def __repr__(self) -> str:
        return f"Layout({self.shape}, {self.stride})"

    def __str__(self) -> str:
        return below["show"](self)

    def __matmul__(self, other: Tiler) -> Layout:
        return below["composition"](self, other)

    def __truediv__(self, tiler: Tiler) -> Layout:
        return below["zipped_divide"](self, tiler)


def _total(terms: list[tuple[Any, Any]]) -> Any:
    """The sum of count times stride: what is known while tracing first, so that it is one constant."""
    number, fixed, moving = 0, 0, 0
    for count, stride in terms:
        if type(count) is not int:
            moving = plus(moving, times(count, stride))
        elif type(stride) is int:
            number += count * stride
        else:
            fixed = plus(fixed, times(count, stride))
    return plus(moving, plus(fixed, number))


def from_modes(modes: Sequence[tuple[Any, Any]], zero: Any = 0) -> Layout:
    """The layout of (shape, stride) pairs: a single one unwrapped; none is ``1:zero``."""
    if not modes:
        return Layout(1, zero)
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(tuple(m[0] for m in modes), tuple(m[1] for m in modes))


def _plain(x: Any) -> Any:
    """Lists as tuples, NumPy's integers as Python's."""
    if isinstance(x, (E, X)):
        return x
    if isinstance(x, (tuple, list)):
        return tuple(map(_plain, x))
    return int(x) if isinstance(x, Integral) else x


def _check(shape: Any, stride: Any) -> None:
    said = f"the layout {shape} : {stride}"
    if not _congruent(shape, stride):
        raise layout_error(
            said, rule="a stride has the profile of its shape", fix="one stride for each size, nested like the shape"
        )
    for size in flatten(shape):
        if isinstance(size, (E, X, float, str)) or size is None or (isinstance(size, int) and size < 1):
            raise layout_error(said, rule=f"a size is a positive integer, not {size!r}", fix="check the sizes")
    strides = flatten(stride)
    if not strides:
        raise layout_error(said, rule="a layout has a mode", fix="Layout(1, 0) is the layout of one element")
    axes = {len(d) for d in strides if isinstance(d, E)}
    if axes and (len(axes) > 1 or not all(isinstance(d, E) or is_zero(d) for d in strides)):
        raise layout_error(
            said,
            rule="all strides lie in one space: coordinates of as many axes, or ints and bits",
            fix="write coordinates as E with an entry for each axis",
        )
    for d in strides:
        if isinstance(d, (float, str)) or d is None:
            rule = f"a stride is an integer, E(...) or X(...), not {d!r}"
            raise layout_error(said, rule=rule, fix="check the strides")


def _congruent(shape: Any, stride: Any) -> bool:
    if not is_nested(shape):
        return not is_nested(stride)
    return is_nested(stride) and len(shape) == len(stride) and all(map(_congruent, shape, stride))
