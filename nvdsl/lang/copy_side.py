"""The two sides of a copy: how an array or a tile lies, where it ends, and how its elements are read and written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd
from typing import Any

from nvdsl.errors import trace_error
from nvdsl.errors.records import dataclass
from nvdsl.ir.linear import Linear, linear
from nvdsl.ir.ranges import largest
from nvdsl.ir.walk import defining
from nvdsl.lang.array import Array
from nvdsl.lang.remote import Remote
from nvdsl.lang.tile import Tile
from nvdsl.layout import Layout
from nvdsl.layout.memory import upcast
from nvdsl.mlir import ir
from nvdsl.values import dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.select import select
from nvdsl.values.traced import Value, as_value
from nvdsl.values.typing import Bool, Int


@dataclass(frozen=True)
class Guard:
    """Index ``i`` of ``axis`` is there where ``start + i * step`` is 0 to ``extent`` minus 1: the part may reach past
    its array. ``below``: it may even start before it."""

    axis: int
    start: Int
    step: int
    extent: Int
    below: bool

    def holds(self, i: Int) -> Bool:
        place, extent = self._place(i)
        return place < extent  # unsigned: what is negative is larger than all

    def left(self, i: Int) -> Int:
        """How many elements are there from index ``i`` on; may be negative where none is."""
        place, extent = self._place(i)
        signed = dtypes.i32 if place.dtype.bits == 32 else dtypes.i64
        left = signed(extent) - signed(place)
        return select(place < extent, left, 0) if self.below else left

    def _place(self, i: Int) -> tuple[Value, Value]:
        start = as_value(self.start)
        wide = start.dtype.bits > 32 or isinstance(self.extent, int) and self.extent > dtypes.i32.max
        t = dtypes.u64 if wide else dtypes.u32
        return t(start) + t(i) * self.step, t(self.extent)


class Side:
    """``strides`` in elements, of a tile those within a panel; ``layout``: addresses in elements; ``origin``: bytes
    that the first element's address is a multiple of, 0 for any; ``along``: the axis along which accesses of several
    elements lie."""

    shape: tuple[int, ...]
    strides: tuple[Int, ...]
    dtype: DType
    shared: bool
    origin: int
    along: int
    guards: Sequence[Guard] = ()

    @property
    def layout(self) -> Layout:
        raise NotImplementedError

    def load(self, at: Sequence[Int], count: int) -> Value:
        """``count`` elements from the coordinates ``at`` on: a vector, or a number."""
        raise NotImplementedError

    def store(self, value: Value, at: Sequence[Int], count: int) -> None:
        raise NotImplementedError

    def place(self, at: Sequence[Int], count: int) -> tuple[Array, tuple[Int, ...]]:
        """The array, and the key in it, of ``count`` elements."""
        raise NotImplementedError

    def aligned(self, axis: int, most: int) -> int:
        """The largest power of two of elements, at most ``most``, that accesses along ``axis`` may have."""
        steps = [_factor(s) * self.dtype.bytes for i, s in enumerate(self.strides) if i != axis and self.shape[i] != 1]
        steps.append(self.origin)
        while most > 1 and any(step % (most * self.dtype.bytes) for step in steps):
            most //= 2
        return most


class ArraySide(Side):
    def __init__(self, array: Array) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.shared = "workgroup" in str(ir.MemRefType(array.type).memory_space)
        self.strides, self.along = array.strides, array.ndim - 1
        self.origin, self.guards = first_byte(array), tuple(_guards(array))

    @property
    def layout(self) -> Layout:
        strides = (s if isinstance(s, int) else UNKNOWN + i for i, s in enumerate(self.strides))
        return Layout(self.shape, tuple(strides))

    def load(self, at: Sequence[Int], count: int) -> Value:
        key = tuple(at)
        return self.array.vector(key, count) if count > 1 else self.array[key]

    def store(self, value: Value, at: Sequence[Int], count: int) -> None:
        if count > 1:
            self.array.store_vector(value, tuple(at))
        else:
            self.array[tuple(at)] = value

    def place(self, at: Sequence[Int], count: int) -> tuple[Array, tuple[Int, ...]]:
        return self.array, tuple(at)


class TileSide(Side):
    def __init__(self, tile: Tile) -> None:
        self.stored = tile.T if tile.transposed else tile
        self.transposed, self.shape, self.dtype, self.shared = tile.transposed, tile.shape, tile.dtype, True
        layout, size = tile.layout, tile.dtype.bytes
        strides = (layout.row_stride // size, 1)
        self.strides, self.along = (strides[::-1], 0) if tile.transposed else (strides, 1)
        self.origin = _factor(tile.offset)

    @property
    def layout(self) -> Layout:
        layout = self.stored.layout
        rows = -(-layout.rows // 8) * 8 if layout.swizzle else layout.rows  # a pattern has 8 rows
        whole = upcast(layout.take_rows(rows).as_layout(), self.dtype.bytes)
        row, col = (Layout(whole.shape[i], whole.stride[i]) for i in (0, 1))
        modes = (col, row) if self.transposed else (row, col)
        return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))

    def _key(self, at: Sequence[Int]) -> tuple[Int, Int]:
        i, j = at
        return (j, i) if self.transposed else (i, j)

    def load(self, at: Sequence[Int], count: int) -> Value:
        return self.stored.vector(self._key(at), count) if count > 1 else self.stored[self._key(at)]

    def store(self, value: Value, at: Sequence[Int], count: int) -> None:
        if count > 1:
            self.stored.store_vector(value, self._key(at))
        else:
            self.stored[self._key(at)] = value

    def place(self, at: Sequence[Int], count: int) -> tuple[Array, tuple[Int, ...]]:
        return self.stored.elements(self._key(at), count), (0,)


class RemoteSide(Side):
    """Lies as the tile or array of this block does, and is reached by loads and stores."""

    def __init__(self, remote: Remote) -> None:
        self.remote, self.local = remote, side(remote.local, "part")
        if isinstance(remote.local, Tile) and remote.local.transposed:
            raise trace_error(
                "nv.copy with the transposed view of a tile of another block",
                rule="the elements of a tile of another block are those of its stored rows",
                fix="nv.copy(source.T, tile.at(rank))",
            )
        self.shape, self.strides, self.dtype, self.shared = self.local.shape, self.local.strides, remote.dtype, True
        self.origin, self.guards, self.along = self.local.origin, self.local.guards, self.local.along

    @property
    def layout(self) -> Layout:
        return self.local.layout

    def load(self, at: Sequence[Int], count: int) -> Value:
        return self.remote.vector(tuple(at), count) if count > 1 else self.remote[tuple(at)]

    def store(self, value: Value, at: Sequence[Int], count: int) -> None:
        if count > 1:
            self.remote.store_vector(value, tuple(at))
        else:
            self.remote[tuple(at)] = value

    def place(self, at: Sequence[Int], count: int) -> tuple[Array, tuple[Int, ...]]:
        raise trace_error(
            "an asynchronous copy to another block's shared memory",
            rule="cp.async goes to the shared memory of its own block (PTX ISA, cp.async)",
            fix="leave asynchronous out, use tile.at(rank).store_async, or a tensor map with multicast_mask",
        )


def side(x: Any, what: str) -> Side:
    """``what``: "source" or "destination"."""
    if isinstance(x, Remote):
        return RemoteSide(x)
    if isinstance(x, Tile):
        return TileSide(x)
    if isinstance(x, Array):
        return ArraySide(x)
    raise trace_error(
        f"nv.copy with {x!r} as its {what}" if not isinstance(x, ir.Value) else f"nv.copy with a number as its {what}",
        rule="a copy goes between arrays and tiles, or parts of them",
        fix="nv.copy(x[row : row + 32, :], tile), and stack[stage] for one tile of a stack",
    )


UNKNOWN = 1 << 48
"""Stands for a stride that only a run knows: elements do not lie in a row along it."""


def _factor(x: Int) -> int:
    """What ``x`` is a multiple of; 0 for 0."""
    return gcd(*_parts(linear(x)))


def _parts(known: Linear) -> tuple[int, int]:
    return known.constant, known.step()


def first_byte(array: Array) -> int:
    """What the byte at which an array starts, beside its memory, is a multiple of; 0 where it starts there."""
    size = array.dtype.bytes
    if array.part_of is not None:
        source, parts = array.part_of
        pairs = list(zip(parts, source.strides, strict=True))
        fixed = [linear(p.start).times(stride * size) for p, stride in pairs if isinstance(stride, int)]
        moving = [_factor(p.start) * _factor(stride) * size for p, stride in pairs if not isinstance(stride, int)]
        return gcd(first_byte(source), *moving, *_parts(reduce(Linear.plus, fixed, Linear(0, {}))))
    op = defining(array)
    if op is not None and op.name == "memref.view":
        return _factor(op.operands[1])
    offset = ir.MemRefType(array.type).get_strides_and_offset()[1]
    return 0 if offset == ir.ShapedType.get_dynamic_stride_or_offset() else offset * size


def _guards(array: Array) -> list[Guard]:
    """What a part that starts at a traced place may reach past; not what the launch and the loops around it exclude."""
    if array.part_of is None:
        return []
    source, parts = array.part_of
    outer = {guard.axis: guard for guard in _guards(source)}
    found, axis = [], 0
    for number, (p, extent) in enumerate(zip(parts, source.shape, strict=True)):
        if p.is_index:
            continue
        most = largest(p.start)
        inside = most is not None and isinstance(extent, int) and most + (p.extent - 1) * p.step < extent
        if not inside and (isinstance(p.start, ir.Value) or not isinstance(extent, int)):
            found.append(Guard(axis, p.start, p.step, extent, most is None and isinstance(p.start, ir.Value)))
        if number in outer:
            g = outer[number]
            below = g.below or largest(p.start) is None
            found.append(Guard(axis, g.start + p.start * g.step, g.step * p.step, g.extent, below))
        axis += 1
    return found
