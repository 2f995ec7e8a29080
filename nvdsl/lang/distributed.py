"""Numbers that are spread over the registers of threads, and what operators mean on them.

Fragments and accumulators have rows and columns; a `FragmentVector` has one value for each row, or for each column.
An operator takes them element by element, and repeats a vector along the other axis, as NumPy's broadcasting does.
Each thread computes what its registers hold; nothing moves between threads.

A product of floats is computed where it is used: where something is added to it, or it is taken from something, the two
are one fused multiply-add, rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from nvdsl.errors import TraceError, trace_error
from nvdsl.lang.axis import Axis
from nvdsl.mlir import ir
from nvdsl.values import math, python_numbers
from nvdsl.values.dtypes import DType
from nvdsl.values.elementwise import OPERATORS, Elementwise
from nvdsl.values.traced import Value, as_value

Grid: TypeAlias = list[list[Value]]
"""This thread's elements: a list for each of its rows."""

Axes: TypeAlias = tuple[Axis | None, Axis | None]
"""Rows and columns; None where the values are the same along it."""

class Distributed(Elementwise):
    """What fragments and vectors have in common. ``axes``: along which it varies. ``flat``: whether it has one axis,
    as a reduction gives it; it meets only its like."""

    axes: Axes
    flat = False
    partial = ""

    def __init__(self, dtype: DType, grid: Grid | None, product: tuple[Any, Any] | None = None) -> None:
        self._dtype, self._product = dtype, product
        self._grid = grid
        self._anchor: Value | None = None  # one of the elements, made in the block in which they were computed

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    def grid(self) -> Grid:
        """This thread's elements, a list for each of its rows."""
        if self._grid is not None and (self._anchor is None or _encloses(_block_of(self._anchor))):
            return self._grid
        found = self._computed()
        here = ir.InsertionPoint.current.block
        self._anchor = next((x for line in found for x in line if _block_of(x) == here), None)
        self._grid = None if self._anchor is None else found  # values from outside are as good as new
        return found

    def _computed(self) -> Grid:
        """Its elements, where they are not there yet."""
        assert self._product is not None
        return computed(lambda a, b: a * b, self._product, self.axes)

    def _element(self, row: int, col: int) -> Value:
        grid = self.grid()
        return grid[row if self.axes[0] else 0][col if self.axes[1] else 0]

    def of_this_thread(self) -> list[Value]:
        """All elements that this thread holds."""
        return [x for line in self.grid() for x in line]

    def of_thread(self, function: Callable[[Any, Any], Any]) -> Value:
        """What ``function`` of two makes of all elements that this thread holds."""
        return functools.reduce(function, self.of_this_thread())

    def map(self, function: Callable[[Value], Any]) -> Any:
        """``function`` of each element, traced once for each register, with the type that it gives:
        ``x.map(lambda x: nv.max(x, 0.0))``, ``acc.map(lambda x: nv.bitcast(x, nv.i32))``."""
        return self._each(lambda x: as_value(function(x), x), (self,))

    def _each(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return _result(function, arguments, met(arguments))

    def _binary(self, op: str, a: Any, b: Any) -> Any:
        if not all(isinstance(x, Distributed | Value | int | float | np.generic) for x in (a, b)):
            return NotImplemented
        where = met((a, b), op)
        t = _float_of(a, b)
        if op == "*" and t is not None:
            for x in (a, b):
                if isinstance(x, Distributed):
                    x.grid()
            return made(where, t, None, (a, b))
        if op in ("+", "-") and t is not None and (fused := _fused(op, a, b)) is not None:
            return fused
        return _result(OPERATORS[op], (a, b), where)

    def _no_number(self, what: str) -> TraceError:
        return trace_error(
            f"{what} of {one(self).partition(' of ')[0]}",
            rule="its elements are spread over the registers of many threads: each thread holds some of them",
            fix="nv.where(x > 0, a, b) chooses element by element; nv.vote_any(x > 0) is one bool for a warp",
        )

    def __len__(self) -> int:
        raise self._no_number("len()")

    def __iter__(self) -> Any:
        raise self._no_number("a loop over the elements")


class Where(NamedTuple):
    """What operands meet in: their axes; whether they are flat; "sum" where each thread has a part of a sum."""

    axes: Axes
    flat: bool
    partial: str = ""


def made(where: Where, dtype: DType, grid: Grid | None, product: tuple[Any, Any] | None = None) -> Any:
    """The object that has these elements."""
    return _makers.of(where)(where, dtype, grid, product)


class Makers:
    """Who makes what has both axes, or one: the modules of these classes, built on this one, have them. Those of some
    number of threads may have a maker of their own."""

    def __init__(self) -> None:
        self._known: dict[tuple[bool, int | None], Callable[..., Any]] = {}

    def add(self, both: bool, maker: Callable[..., Any], threads: int | None) -> None:
        self._known[both, threads] = maker

    def of(self, where: Where) -> Callable[..., Any]:
        both = None not in where.axes
        axis = where.axes[0] or where.axes[1]
        assert axis is not None
        return self._known.get((both, axis.threads)) or self._known[both, None]


_makers = Makers()


def make_with(
    both: bool, maker: Callable[[Where, DType, Grid | None, Any], Any], threads: int | None = None
) -> None:
    """Let ``maker`` make what has both axes, or one, and is spread over so many threads (None: over any others)."""
    _makers.add(both, maker, threads)


def _result(function: Callable[..., Any], arguments: tuple[Any, ...], where: Where) -> Any:
    for x in arguments:
        if isinstance(x, Distributed):
            x.grid()  # what it is made of comes before the first of the results
    grid = computed(function, arguments, where.axes)
    return made(where, grid[0][0].dtype, grid)


def computed(function: Callable[..., Any], arguments: Sequence[Any], axes: Axes) -> Grid:
    """``function`` at each place of this thread."""
    counts = [1 if axis is None else len(axis.offsets) for axis in axes]

    def at(row: int, col: int) -> Value:
        return function(*[x._element(row, col) if isinstance(x, Distributed) else x for x in arguments])

    return [[at(row, col) for col in range(counts[1])] for row in range(counts[0])]


def met(arguments: Sequence[Any], op: str = "") -> Where:
    """Where the operands of ``op`` meet. Raises TraceError where they do not."""
    parts = [x for x in arguments if isinstance(x, Distributed)]
    for x in arguments:
        if isinstance(x, Value) and x.shape:
            raise trace_error(
                f"an operation on {one(parts[0])} and a vector of {x.shape[0]} elements of each thread",
                rule="a fragment's elements lie at places of their own: a vector value has none",
                fix="nv.row_vector(x, start, rows)[:, None] and nv.column_vector(x, start, cols)[None, :] have",
            )
    axes: list[Axis | None] = [None, None]
    for x in parts:
        for k in (0, 1):
            mine, there = x.axes[k], axes[k]
            if mine is not None and there is not None and mine != there:
                raise _apart(parts)
            axes[k] = mine if there is None else there
    flat = parts[0].flat
    if any(x.flat is not flat for x in parts) or flat and None not in axes:
        raise _flat(parts)
    return Where((axes[0], axes[1]), flat, _of_parts([getattr(x, "partial", "") for x in arguments], op, parts))


def _of_parts(kinds: list[str], op: str, parts: Sequence[Any]) -> str:
    """"sum" where the result is a part of a sum as the operands are."""
    if not any(kinds):
        return ""
    linear = all(kinds) if op in ("+", "-") else bool(kinds[0]) and not kinds[1] if op == "/" else not all(kinds)
    if op not in ("+", "-", "*", "/") or not linear:
        raise trace_error(
            f"an operation on {' and '.join(map(shown, parts))} that each thread has a part of",
            rule="parts of sums can be added, and multiplied by whole numbers: anything else needs the sum",
            fix="write v.total() first, which adds the parts of the threads that share a row",
        )
    return "sum"


def shown(x: Any) -> str:
    """A fragment or vector as messages name it."""
    return f"{type(x).__name__} of shape {x.shape}"


def subscript(key: Any) -> str:
    """A subscript as it was written: ``[:, None]``."""
    parts = key if isinstance(key, tuple) else (key,)
    return f"[{', '.join(map(_part, parts))}]"


def _part(part: Any) -> str:
    if not isinstance(part, slice):
        return "..." if isinstance(part, Value) else repr(part)
    start, stop = ("" if x is None else _part(x) for x in (part.start, part.stop))
    return f"{start}:{stop}" + ("" if part.step is None else f":{_part(part.step)}")


def one(x: Any) -> str:
    """The same with the article."""
    name = shown(x)
    return f"{'an' if name[0] in 'AE' else 'a'} {name}"


def _apart(parts: Sequence[Any]) -> TraceError:
    return trace_error(
        f"an operation on {' and '.join(map(shown, parts))}",
        rule="operands have one shape, and the same elements in each thread; an extent of 1 is repeated",
        fix="take accumulators of one shape, and vectors of their rows and columns",
    )


def _flat(parts: Sequence[Any]) -> TraceError:
    return trace_error(
        f"an operation on {' and '.join(map(shown, parts))}",
        rule="a vector is repeated along the axis that it says: v[:, None] has a value for each row, v[None, :] for "
        "each column",
        fix="write v[:, None] or v[None, :] beside a fragment",
    )


def _float_of(a: Any, b: Any) -> DType | None:
    """The type of ``a * b``, where it is a float with a fused multiply-add; None otherwise."""
    x, y = (a, b) if isinstance(a, Distributed) else (b, a)
    t = x.dtype
    same = isinstance(y, Distributed | Value) and y.dtype is t
    literal = python_numbers.is_number(y) and python_numbers.type_beside(y, t) is t
    return t if t.is_float and t.arithmetic and (same or literal) else None


def _fused(op: str, a: Any, b: Any) -> Any:
    """``a + b`` or ``a - b`` as a fused multiply-add, where one of them is a product; None otherwise."""
    if _is_product(a) and not (op == "-" and isinstance(b, Distributed) and b.partial):
        p, q = a._product
        other = b if op == "+" else -b
    elif _is_product(b) and not b.partial:
        p, q = b._product
        other = a
        if op == "-":
            p, q = (-p, q) if _narrow(p) <= _narrow(q) else (p, -q)
    else:
        return None
    return _result(math.fma, (p, q, other), met((a, b), op))


def _is_product(x: Any) -> bool:
    return isinstance(x, Distributed) and x._product is not None


def _narrow(x: Any) -> int:
    """How many registers of a thread hold ``x``."""
    if not isinstance(x, Distributed):
        return 0
    rows, cols = (1 if axis is None else len(axis.offsets) for axis in x.axes)
    return rows * cols


def _block_of(x: Value) -> Any:
    """The block that ``x`` is made in now: that of an `if` may have gone, and what was in it moved out."""
    owner = x.owner
    return owner if isinstance(owner, ir.Block) else owner.operation.block


def _encloses(block: Any) -> bool:
    """Whether what was computed in ``block`` is known where ops are added now."""
    at = ir.InsertionPoint.current.block
    while at != block:
        op = at.owner.operation
        if op.parent is None:  # the module
            return False
        at = op.block
    return True

