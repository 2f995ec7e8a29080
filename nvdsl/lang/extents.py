"""Dynamic extents: what the annotation of an array says of its axes, and an array whose extents only a run knows.

    def gemm(a: nv.Array["m", "k % 8"], b: nv.Array["k % 8", "n % 8"], d: nv.Array["m", "n % 8"]): ...

A named extent is a traced i32: TMA's coordinates, ``threadIdx`` and loop counters have 32 bits, and 64-bit arithmetic
costs a GPU several instructions an operation. Addresses are computed in 64 bits whatever the extents are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from nvdsl.errors import ArgumentError, frames
from nvdsl.errors.records import dataclass
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import memref
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.extents import name_of
from nvdsl.values.traced import Value

if TYPE_CHECKING:
    from nvdsl.lang.array import Array
    from nvdsl.values.typing import Int

MOST = (1 << 31) - (1 << 16)
"""The largest named extent: it is an i32, and so is what it is rounded up to, a whole number of tiles or blocks."""

_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()
_TEXT = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:%\s*([1-9]\d*)\s*)?")


@dataclass(frozen=True)
class Extent:
    """A named extent, which is a multiple of ``multiple`` in every call."""

    name: str
    multiple: int = 1

    def __str__(self) -> str:
        return f"{self.name} % {self.multiple}" if self.multiple > 1 else self.name


Axis: TypeAlias = Extent | int | None
"""A named extent; an int, which the extent is; None: the extent is a constant of the compiled kernel, any."""


@dataclass(frozen=True)
class Axes:
    """What an annotation says of an array's axes."""

    axes: tuple[Axis, ...]

    @staticmethod
    def parse(entries: Any) -> Axes:
        """Of the subscript of `Array`. Raises ArgumentError for an entry that says nothing of an axis."""
        entries = entries if isinstance(entries, tuple) else (entries,)
        return Axes(tuple(axis(entry) for entry in entries))

    def __str__(self) -> str:
        return f"({', '.join('...' if one is None else str(one) for one in self.axes)})"


def axis(entry: Any) -> Axis:
    """One entry of an annotation. Raises ArgumentError where it says nothing of an axis."""
    if entry is None or entry is ...:
        return None
    if isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0:
        return entry
    match = _TEXT.fullmatch(entry) if isinstance(entry, str) else None
    if match is None:
        raise ArgumentError(
            f"{entry!r} as an axis of an array",
            where=frames.caller(),
            rule='an axis is a name ("m": the extent is a traced value), a name and what it is a multiple of '
            '("k % 8"), an int (the extent is exactly that), or ... (a constant of the compiled kernel)',
            fix='write nv.Array["m", "k % 8"]',
        )
    return Extent(match[1], int(match[2] or 1))


if TYPE_CHECKING:
    from typing import Annotated as Shaped
else:

    class Shaped:
        """``nv.Shaped[nv.Array, "m", "k % 8"]`` is ``nv.Array["m", "k % 8"]`` for type checkers, to which it is
        ``typing.Annotated``."""

        def __class_getitem__(cls, entries: Any) -> Any:
            array, *axes = entries if isinstance(entries, tuple) else (entries,)
            return Annotated[array, Axes.parse(tuple(axes))]


def shaped(base: ir.Value, dtype: DType, extents: Sequence[Int], strides: Sequence[Int], offset: int = 0) -> Array:
    """The array of these extents and strides (in elements) whose first element is that of ``base``, which is the one
    ``offset`` elements behind the start of its memory."""
    sizes, steps = list(map(_static_or_index, extents)), list(map(_static_or_index, strides))
    kind = memref_type(base.type, extents, strides, offset)
    made = memref.ReinterpretCastOp(
        kind, base, [], *([x for x in part if isinstance(x, ir.Value)] for part in (sizes, steps)),
        [offset], *([_DYNAMIC if isinstance(x, ir.Value) else x for x in part] for part in (sizes, steps)),
    )  # fmt: skip
    return known(made.result, dtype, extents, strides)


def known(raw: Any, dtype: DType, extents: Sequence[Int], strides: Sequence[Int]) -> Array:
    """``raw``, a memref, as an array that knows the values of its extents and strides."""
    array = cast("Array", raw).remember_dtype(dtype)
    array._extents, array._steps = tuple(extents), tuple(strides)
    return array


def memref_type(source: Any, extents: Sequence[Int], strides: Sequence[Int], offset: int | None = 0) -> ir.MemRefType:
    """The type of a view of memory of type ``source``. ``offset`` None: not known."""
    sizes, steps = ([x if isinstance(x, int) else _DYNAMIC for x in part] for part in (extents, strides))
    layout = None
    if steps != [1] or offset != 0:
        layout = ir.StridedLayoutAttr.get(_DYNAMIC if offset is None else offset, steps)
    return ir.MemRefType.get(sizes, source.element_type, layout, source.memory_space)


def shown(extents: Sequence[Int]) -> str:
    """A shape as messages write it, a tuple with dynamic extents by name, where they have one."""
    return f"({', '.join(_name(n) for n in extents)}{',' if len(extents) == 1 else ''})"


def _name(number: Any) -> str:
    return name_of(number) or "?" if isinstance(number, ir.Value) else repr(number)


def is_static(numbers: Sequence[Int]) -> bool:
    """Whether Python knows all of them."""
    return all(isinstance(n, int) for n in numbers)


def _static_or_index(value: Int) -> Any:
    return dtypes.index(value) if isinstance(value, Value) else value
