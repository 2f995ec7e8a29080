"""One value for each row of a fragment, or for each column: what reductions give, and what a bias or a scale is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nvdsl.errors import trace_error
from nvdsl.lang import fragment_memory as memory
from nvdsl.lang import reduction
from nvdsl.lang.axis import Axis, column_axis, row_axis
from nvdsl.lang.distributed import Distributed, Grid, Where, made, make_with, subscript
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.elementwise import OPERATORS
from nvdsl.values.results import kept
from nvdsl.values.traced import Value, as_value
from nvdsl.values.typing import Coords, ElementType, Int, Number

if TYPE_CHECKING:
    from nvdsl.lang.array import Array


class FragmentVector(Distributed):
    """One value for each row (``number`` 0), or for each column (1), of fragments with that axis.

    All threads that hold a part of a row hold its value. ``flat``: of shape ``(extent,)``; ``v[:, None]`` and
    ``v[None, :]`` say along which axis it is repeated beside a fragment. ``partial``: each thread has a part of the sum
    only, which `total` adds up.
    """

    __nv_unprintable__ = "v.store(x, start), or for i, x in v.elements(): print(i, x)"

    def __init__(
        self,
        axis: Axis,
        number: int,
        dtype: DType,
        grid: Grid | None,
        product: tuple[Any, Any] | None = None,
        *,
        flat: bool = True,
        partial: str = "",
    ) -> None:
        super().__init__(dtype, grid, product)
        self.axis, self.number, self.flat, self.partial = axis, number, flat, partial
        self.axes = (axis, None) if number == 0 else (None, axis)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(extent,)``, or with the other axis ``(extent, 1)`` for rows and ``(1, extent)`` for columns."""
        if self.flat:
            return (self.axis.extent,)
        return (self.axis.extent, 1) if self.number == 0 else (1, self.axis.extent)

    @property
    def __nv_key__(self) -> tuple[Any, ...]:
        return self.axis, self.number, self.flat, self.partial, self.dtype

    def values(self) -> list[Value]:
        """This thread's values, in the order of the axis."""
        return [x for row in self.grid() for x in row]

    def __nv_values__(self) -> list[Value]:
        return self.values()

    def __nv_rebuild__(self, values: Sequence[Value]) -> FragmentVector:
        return self._with(list(values))

    def _with(self, values: list[Value]) -> FragmentVector:
        grid = [[x] for x in values] if self.number == 0 else [values]
        return FragmentVector(self.axis, self.number, values[0].dtype, grid, flat=self.flat, partial=self.partial)

    def __getitem__(self, key: Any) -> FragmentVector:
        """``v[:, None]`` of a vector of rows, ``v[None, :]`` of one of columns: repeated along the other axis."""
        wanted = (slice(None), None) if self.number == 0 else (None, slice(None))
        if not self.flat or key != wanted:
            name, form = (("row", "v[:, None]"), ("column", "v[None, :]"))[self.number]
            raise trace_error(
                f"{subscript(key)} of a vector of shape {self.shape}",
                rule=f"it has one value for each {name}, and is repeated along the other axis",
                fix=f"write {form}; `for i, x in v.elements():` reads what this thread has",
            )
        return FragmentVector(
            self.axis, self.number, self.dtype, self._grid, self._product, flat=False, partial=self.partial
        )._placed_as(self)

    def _placed_as(self, other: Distributed) -> FragmentVector:
        self._anchor = other._anchor
        return self

    @kept("y = x.to(dtype)")
    def to(self, dtype: ElementType) -> FragmentVector:
        """The values converted to ``dtype``."""
        return self._with([dtypes.element(dtype)(x) for x in self.values()])

    def total(self) -> FragmentVector:
        """The sum of the threads' parts, where ``sum(partial=True)`` left each thread its own (2 shuffles a row)."""
        if not self.partial:
            raise trace_error(
                "total() of a vector that is whole",
                rule="total() adds up what sum(axis, partial=True) left to the threads",
                fix="leave it out",
            )
        bits = self.axis.sharing()
        whole = self._with([reduction.over_lanes("sum", x, bits) for x in self.values()])
        whole.partial = ""
        return whole

    def elements(self) -> list[tuple[Value, Value]]:
        """(place, value) of what this thread has; the place is i32."""
        first = self.axis.first()
        return [(first + offset, x) for offset, x in zip(self.axis.offsets, self.values(), strict=True)]

    def store(self, out: Array, start: Int | Coords, *, clip: bool = False) -> None:
        """Write the values to ``out``, along its last axis from ``start`` on; each value is written once.

        ``start``: an index for each axis of ``out``, or an integer where it has one. ``clip``: leave out what lies
        beyond the last element. Raises TraceError where ``out`` is too short, and for parts of sums.
        """
        self._whole("store()")
        memory.store_vector(self, out, start, clip)

    def _whole(self, what: str) -> None:
        if self.partial:
            raise trace_error(
                f"{what} of a vector that each thread has a part of",
                rule="sum(axis, partial=True) leaves to each thread the sum of its own elements",
                fix="v.total() first",
            )

    def __repr__(self) -> str:
        of = ("rows", "columns")[self.number]
        part = ", a part in each thread" if self.partial else ""
        return f"FragmentVector({self.shape} of {of}, {self.dtype.name}{part})"


class Coordinates(FragmentVector):
    """The rows, or the columns, of a fragment: ``base`` of this thread, plus what each register adds.

    Sums with integers stay coordinates. A comparison of two of them, or with a bound for each place on the other axis,
    is one comparison with a constant for each register. Coordinates are i32, and no sum or difference of them may
    overflow.
    """

    def __init__(self, axis: Axis, number: int, base: Value) -> None:
        super().__init__(axis, number, dtypes.i32, None, flat=False)
        self.base = base

    def _computed(self) -> Grid:
        values = [self.base + offset for offset in self.axis.offsets]
        return [[x] for x in values] if self.number == 0 else [values]

    @property
    def __nv_key__(self) -> tuple[Any, ...]:
        return "coordinates", self.axis, self.number

    def __nv_values__(self) -> list[Value]:
        return [self.base]

    def __nv_rebuild__(self, values: Sequence[Value]) -> Coordinates:
        return Coordinates(self.axis, self.number, values[0])

    def _binary(self, op: str, a: Any, b: Any) -> Any:
        x, other = (a, b) if a is self else (b, a)
        is_shift = _is_i32(other) and (op == "+" or op == "-" and a is self)
        if is_shift and isinstance(x, Coordinates):
            return Coordinates(self.axis, self.number, OPERATORS[op](self.base, other))
        return super()._binary(op, a, b)

    def _compare(self, op: str, other: Any) -> Any:
        compare = OPERATORS[op]
        if isinstance(other, Coordinates) and other.number != self.number:
            where = Where(((self.axis, other.axis) if self.number == 0 else (other.axis, self.axis)), False)
            difference = self.base - other.base
            mine, there = self.axis.offsets, other.axis.offsets
            if self.number == 0:
                grid = [[compare(difference, c - r) for c in there] for r in mine]
            else:
                grid = [[compare(difference, r - c) for c in mine] for r in there]
            return made(where, dtypes.bool_, grid)
        if isinstance(other, FragmentVector) and other.number != self.number and _bounds(other):
            where = Where(((self.axis, other.axis) if self.number == 0 else (other.axis, self.axis)), False)
            lines = [[compare(self.base - bound, -offset) for offset in self.axis.offsets] for bound in other.values()]
            return made(where, dtypes.bool_, lines if self.number == 1 else [list(x) for x in zip(*lines, strict=True)])
        if isinstance(other, int) and not isinstance(other, bool):
            found = [compare(self.base, other - offset) for offset in self.axis.offsets]
            return made(Where(self.axes, False), dtypes.bool_, [[x] for x in found] if self.number == 0 else [found])
        return super()._compare(op, other)


def _bounds(x: FragmentVector) -> bool:
    return x.dtype is dtypes.i32 and not x.flat and not x.partial


def _is_i32(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) or isinstance(x, Value) and x.dtype is dtypes.i32


def row_vector(
    x: Array | Number, start: Int | Coords, rows: int, *, clip: bool = False, other: Number = 0
) -> FragmentVector:
    """One value for each of ``rows`` rows of a fragment: ``v[:, None]`` beside it.

    ``x``: an array, whose last axis is read from ``start`` on (an index for each axis, or an integer where it has one);
    or a number, which each row gets. ``clip``: rows beyond the last element get ``other``. A thread holds two values
    for each 64 rows. Raises TraceError where the array is too short.
    """
    return _loaded(row_axis(rows), 0, x, start, clip, other)


def column_vector(
    x: Array | Number, start: Int | Coords, cols: int, *, clip: bool = False, other: Number = 0
) -> FragmentVector:
    """One value for each of ``cols`` columns of a fragment: ``v[None, :]`` beside it; else as `row_vector`.

    A thread holds two values for each 8 columns.
    """
    return _loaded(column_axis(cols), 1, x, start, clip, other)


def _loaded(axis: Axis, number: int, x: Any, start: Any, clip: bool, other: Any) -> FragmentVector:
    if isinstance(x, Value | int | float):
        values = [as_value(x)] * len(axis.offsets)
    else:
        values = memory.load_vector(axis, x, start, clip, other)
    grid = [[v] for v in values] if number == 0 else [values]
    return FragmentVector(axis, number, values[0].dtype, grid)


def _made(where: Where, dtype: DType, grid: Grid | None, product: Any) -> FragmentVector:
    number = 0 if where.axes[0] is not None else 1
    axis = where.axes[number]
    assert axis is not None
    return FragmentVector(axis, number, dtype, grid, product, flat=where.flat, partial=where.partial)


make_with(False, _made)
