"""A rectangle of a tile in shared memory, or of an array: where it starts, and how its elements lie."""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.ir.linear import linear
from nvdsl.lang.array import Array
from nvdsl.lang.copy_side import first_byte
from nvdsl.lang.tile import Tile
from nvdsl.mlir import ir
from nvdsl.values import bounds
from nvdsl.values.dtypes import DType
from nvdsl.values.typing import Coords, Int, Pointer


@dataclass(frozen=True)
class Part:
    """``shape`` elements of ``memory`` from ``start`` (row, column) on, which may be traced."""

    memory: Tile | Array
    start: tuple[Int, Int]
    shape: tuple[int, int]

    def at(self, row: Int, col: Int, shape: tuple[int, int]) -> Part:
        """The part of ``shape`` from (row, column) of this one on."""
        return Part(self.memory, (self.start[0] + row, self.start[1] + col), shape)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.memory.dtype

    @cached_property
    def space(self) -> str:
        """ "shared" or "global"."""
        shared = isinstance(self.memory, Tile) or "workgroup" in str(self.memory._ty.memory_space)
        return "shared" if shared else "global"

    @property
    def _turned(self) -> bool:
        return isinstance(self.memory, Tile) and self.memory.transposed

    def byte(self, row: int, col: int) -> int:
        """Where an element lies in the tile or array, for a start that is known."""
        at = self._at(row, col)
        if isinstance(self.memory, Tile):
            return int(self.memory.layout.offset(*at))
        return sum(i * step * self.dtype.bytes for i, step in zip(at, self.memory.strides, strict=True))

    @property
    def contiguous(self) -> int | None:
        """The axis along which neighbours lie beside each other, None where there is none."""
        if isinstance(self.memory, Tile):
            return 0 if self.memory.transposed else 1
        return 1 if self.memory.strides[1] == 1 else 0 if self.memory.strides[0] == 1 else None

    @property
    def rows_lie(self) -> bool:
        """Whether the contiguous axis is the last one of the memory as it is stored: what vectors are read along."""
        return isinstance(self.memory, Tile) or self.memory.strides[1] == 1

    def alignment(self) -> int:
        """What the byte at which each row (along `contiguous`) starts is surely a multiple of; 0: of any number.

        The array's own first byte is not counted: it is as aligned as its accesses need, which the call checks.
        """
        known = _multiple(self._origin())
        for axis, (first, step) in enumerate(zip(self.start, self._steps(), strict=True)):
            if isinstance(first, ir.Value) or first:
                known = gcd(known, _multiple(first) * _multiple(step))
            if axis != self.contiguous and self.shape[axis] > 1:
                known = gcd(known, _multiple(step))
        return known

    def _steps(self) -> list[Any]:
        """Bytes from a row to the next one, and from a column to the next one."""
        itemsize = self.dtype.bytes
        if isinstance(self.memory, Tile):
            steps = [self.memory.layout.row_stride, itemsize]
            return steps[::-1] if self._turned else steps
        return [step * itemsize for step in self.memory.strides]

    def _origin(self) -> Any:
        """The byte of the tile's or array's first element, or what it is a multiple of."""
        if isinstance(self.memory, Tile):
            return self.memory.offset
        return first_byte(self.memory)

    def within(self) -> None:
        """State that a traced start leaves room for the part of a tile. (Each access of an array is checked.)"""
        if isinstance(self.memory, Tile):
            extents = [n - size + 1 for n, size in zip(self.memory.shape, self.shape, strict=True)]
            bounds.within(f"the start of {self.shape[0]}x{self.shape[1]} of {self.memory!r}", self.start, extents)

    def _at(self, row: Any, col: Any) -> tuple[Any, Any]:
        row, col = row + self.start[0], col + self.start[1]
        return (col, row) if self._turned else (row, col)

    def pointer(self, row: Int, col: Int) -> Pointer:
        """Address of an element of a part of a tile."""
        assert isinstance(self.memory, Tile)
        return self.memory.pointer(self.memory.layout.offset(*self._at(row, col)))

    @property
    def _stored(self) -> Tile | Array:
        return self.memory.T if self._turned else self.memory  # type: ignore[union-attr]

    def load(self, row: Int, col: Int, count: int) -> Any:
        """``count`` neighbours along `contiguous`, as a vector, or one element."""
        key = self._at(row, col)
        return self._stored.vector(key, count) if count > 1 else self._stored[key]

    def place(self, row: Int, col: Int, count: int) -> tuple[Array, tuple[Int, ...]]:
        """The array, and the key in it, of ``count`` neighbours along `contiguous`."""
        key = self._at(row, col)
        if isinstance(self._stored, Tile):
            return self._stored.elements(key, count), (0,)
        return self._stored, key

    def store(self, value: Any, row: Int, col: Int) -> None:
        """A vector of neighbours along `contiguous`, or one element."""
        if value.shape:
            self._stored.store_vector(value, self._at(row, col))
        else:
            self._stored[self._at(row, col)] = value

    def __str__(self) -> str:
        at = ", ".join(str(x) if isinstance(x, int) else "..." for x in self.start)
        return f"{self.shape[0]}x{self.shape[1]} {self.dtype.name} at ({at}) of {self.memory!r}"


def _multiple(value: Any) -> int:
    """A number that ``value`` is a multiple of: itself where it is known."""
    found = linear(value)
    return gcd(found.constant, found.step())


def part(memory: Tile | Array, start: Coords | None, shape: tuple[int, int] | None, what: str) -> Part:
    """Raises TraceError where ``shape`` elements from ``start`` on do not lie within the memory."""
    if not isinstance(memory, Tile | Array) or len(memory.shape) != 2:
        raise trace_error(
            f"{what} of {type(memory).__name__}" if not isinstance(memory, Array) else f"{what} of {memory!r}",
            rule="it takes a tile in shared memory or an array of two axes, in rows and columns",
            fix="index the other axes first: stack[stage], x[batch, :, :]",
        )
    rows, cols = tuple(start) if start is not None else (0, 0)
    size = tuple(shape) if shape is not None else tuple(memory.shape)
    for first, count, extent in zip((rows, cols), size, memory.shape, strict=True):
        known = first if isinstance(first, int) else 0
        if count < 1 or known < 0 or isinstance(extent, int) and extent < known + count:
            shown = ", ".join(str(x) if isinstance(x, int) else "..." for x in (rows, cols))
            raise trace_error(
                f"{what} of {size[0]}x{size[1]} at ({shown}) of {memory!r}",
                rule="a part lies within its tile or array",
                fix="check the start and the shape",
            )
    return Part(memory, (rows, cols), (size[0], size[1]))


def of(memory: Tile | Array | Part, start: Coords | None = None, shape: tuple[int, int] | None = None) -> Part:
    """``shape`` elements of a tile or of an array of two axes, from ``start`` (row, column) on, which may be traced.

    It is all of it unless they are given. Raises TraceError for what does not lie within it.
    """
    return memory if isinstance(memory, Part) else part(memory, start, shape, "a part")
