"""Epilogues that combine each sum with the elements of other matrices at its place: scales, a bias, a residual.

What such an epilogue reads is known before the sums are, so none of it is waited for at the end:

    repeated along a row       (M, 1): a thread has two rows of each 64: two registers, loaded before the loop over K
    repeated along a column    (1, N): a warp holds the tile's columns, two or four a thread, loaded before the loop
                               over K; a thread gets those that it needs by shuffles
    each element its own       brought into L2 before the loop; a part's elements are loaded while the one before it
                               leaves
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.blocks.clamped_index import inside, multiple, opaque
from nvdsl.kernels.blocks.epilogue_visitor import Part, Place, Visitor, returned
from nvdsl.lang.accumulator import pack_pair
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import llvm, vector
from nvdsl.ops import memory
from nvdsl.ops.pointer import index
from nvdsl.values.traced import wrap

LINE = 128
"""Bytes that are brought into L2 together."""


@dataclass(frozen=True, repr=False)
class Elementwise:
    """``function(value, *elements) -> value``, of a sum and of what the operands have at its place; an `EpilogueOp`.

    Operands are arrays of the result's shape (batch, row, column), fewer leading axes, or scalars. An axis of extent 1
    or stride 0 is repeated, as in NumPy's broadcasting. ``function`` is traced once for each register.
    ``aligned``: every array begins at an even element, so that two neighbours can be read together. ``turns``: each
    operand repeats along rows or columns, so that a kernel that computes the result's transpose reads it as fast.
    ``clips``: nothing is read for pieces beyond the result's edge. Else its last elements are: where an operand is the
    result itself, these may be on their way out.
    """

    function: Callable[..., Any]
    aligned: bool = False
    turns: bool = False
    clips: bool = False

    def __repr__(self) -> str:
        """The same in every process: what was tuned is found by it."""
        return f"Elementwise({getattr(self.function, '__qualname__', None) or repr(self.function)})"

    def visitor(self, operands: Sequence[Any], out: nv.Array, tile_n: int, turned: bool = False) -> Visitor:
        """What reads the operands of tiles of ``tile_n`` columns ahead. ``turned``: these are rows of ``out``."""
        return ElementsVisitor(self, operands, out, tile_n, turned)

    def __call__(self, value: Any, batch: Any, row: Any, col: Any, *operands: Any) -> Any:
        """For a kernel in which a thread has one element."""
        at = batch, row, col
        return self.function(value, *[x[place(x, *at)] if isinstance(x, nv.Array) else x for x in operands])


class ElementsVisitor(Visitor):
    """Hands the function of an `Elementwise` the operands' elements, read ahead."""

    ROOM = 16
    """Registers for what is held while the sums are computed: what the largest tiles leave."""
    FIRST, MOST = 4, 16
    """Registers for the elements of the first part, and of later ones: as sums leave, theirs get free. The more arrays,
    the fewer."""

    def __init__(self, op: Elementwise, operands: Sequence[Any], out: nv.Array, tile_n: int, turned: bool) -> None:
        self.function = op.function
        self.sources: list[Source] = []
        room = self.ROOM
        for operand in operands:
            self.sources.append(source(operand, out, tile_n, op.aligned, room, turned, op.clips))
            room -= self.sources[-1].holds
        self.needs_place = any(isinstance(one, Elements) and not one.repeated for one in self.sources)
        self.each = sum(one.registers for one in self.sources)
        self.share = self.MOST // max(1, sum(isinstance(operand, nv.Array) for operand in operands))

    def most(self, gone: int) -> int:
        if not self.each:
            return super().most(gone)
        return max(8, int(min(self.FIRST + gone, self.share) / self.each) // 8 * 8)

    def prefetch(self, at: Place, rows: int) -> list[Any]:
        return [one.prefetch(at, rows) for one in self.sources]

    def load(self, at: Place, part: Part) -> list[Any]:
        return [one.load(at, part) for one in self.sources]

    def visit(self, values: Sequence[Any], at: Place, part: Part, held: Any, fetched: Any) -> Sequence[Any]:
        if self.each:
            nv.sync_warp()  # nothing is read before: it would need registers of its own
        given = zip(self.sources, held, fetched, strict=True)
        found = [one.elements(before, now, part) for one, before, now in given]
        each = zip(values, *found, strict=True)
        return [returned(self.function, self.function(value, *elements), value) for value, *elements in each]


def place(array: nv.Array, batch: Any, row: Any, col: Any) -> tuple[Any, ...]:
    """The indices of a place in the result, in an array that is broadcast to it."""
    axes = zip((batch, row, col)[3 - array.ndim :], array.shape, array.strides, strict=True)
    return tuple(0 if _repeats(extent, stride) else at for at, extent, stride in axes)


def _repeats(extent: nv.Int, stride: nv.Int) -> bool:
    """Whether the elements along an axis are one and the same, as far as it is known when a kernel is compiled."""
    return any(isinstance(x, int) and x == same for x, same in ((extent, 1), (stride, 0)))


def _fits(extent: nv.Int, full: nv.Int) -> bool:
    """Whether an axis is broadcast to one of ``full``; of those that only a run knows the call's checks say so."""
    return not (isinstance(extent, int) and isinstance(full, int)) or extent in (1, full)


def turned_place(array: nv.Array, batch: Any, row: Any, col: Any) -> tuple[Any, ...]:
    """The same of a place in the result's transpose."""
    return place(array, batch, col, row)


def source(
    operand: Any, out: nv.Array, tile_n: int, aligned: bool, room: int, turned: bool = False, clips: bool = False
) -> Source:
    """How an epilogue reads an operand. ``room``: registers that may hold it beside the sums. ``turned``: these are of
    the result's transpose.

    Raises ArgumentError for an array that isn't broadcast to ``out``'s shape.
    """
    if not isinstance(operand, nv.Array):
        return Scalar(operand)
    full = (1, *out.shape)[-3:]
    shape, strides = ((1,) * (3 - operand.ndim) + x for x in (operand.shape, operand.strides))
    nv.require(
        operand.ndim <= 3 and all(map(_fits, shape, full)),
        f"an operand of shape {operand.shape} beside a result of {out.shape}",
        rule="what an elementwise epilogue reads is broadcast to the result's shape",
        fix="reshape it: (M, 1) for one a row, (1, N) for one a column",
    )
    down, right = map(_repeats, shape[1:], strides[1:])
    at = place
    if turned:
        (batches, rows, cols), (down, right), at = full, (right, down), turned_place
        full = batches, cols, rows
    if right:
        return Rows(operand, full, at)
    if down and (columns := Columns(operand, full, tile_n, at)).holds <= room:
        return columns
    return Elements(operand, full, tile_n, at, aligned and not down, repeated=down, clips=clips and not down)


class Source:
    """One operand. ``holds``: registers of a thread that hold it while the sums are computed; ``registers``: what the
    element beside a sum takes of them while it is fetched."""

    holds = 0
    registers = 0.0

    def prefetch(self, at: tuple[Any, Any, Any], rows: int) -> Any:
        """Load what is held while the sums are computed. ``at``: batch, row, column of the tile; ``rows``: of it."""

    def load(self, at: tuple[Any, Any, Any], part: Part) -> Any:
        """Load a part's elements."""

    def elements(self, held: Any, fetched: Any, part: Part) -> list[Any]:
        """A part's elements, register by register, of what `prefetch` and `load` returned."""
        raise NotImplementedError


class Scalar(Source):
    def __init__(self, value: Any) -> None:
        self.value = value

    def elements(self, held: Any, fetched: Any, part: Part) -> list[Any]:
        return [self.value] * part.count


class Rows(Source):
    """One element for each row."""

    holds = 4
    """Of 128 rows; a tile of 256 columns has 64."""

    def __init__(self, array: nv.Array, full: Sequence[int], place: Callable[..., Any]) -> None:
        self.array, self.rows, self.place = array, full[1], place

    def prefetch(self, at: tuple[Any, Any, Any], rows: int) -> list[Any]:
        batch, row, _ = at
        row0, _ = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
        tops = [top + half for top in range(0, rows, 64) for half in (0, 8)]
        places = [nv.min(row + row0 + top, self.rows - 1) for top in tops]
        return [self.array[self.place(self.array, batch, at, 0)] for at in places]

    def elements(self, held: Any, fetched: Any, part: Part) -> list[Any]:
        halves = [nv.layout.accumulator_element(0, register)[0] // 8 for register in range(part.count)]
        # A lane's own numbers: but ptxas takes no shuffle to before a barrier, and so no sum's epilogue, which would
        # need registers of its own, to before the sums ahead of it have left.
        mine = [nv.shuffle(self.wide(held[part.top // 32 + half]), nv.lane_id()) for half in (0, 1)]
        return [mine[half] for half in halves]

    @staticmethod
    def wide(x: Any) -> Any:
        """A number of 32 bits."""
        return x if x.dtype.bits == 32 else nv.f32(x)


class Columns(Source):
    """One element for each column: lane ``i`` of a warp holds columns ``64 * j + 2 * i`` and the one beside it."""

    def __init__(self, array: nv.Array, full: Sequence[int], tile_n: int, place: Callable[..., Any]) -> None:
        self.array, self.cols, self.tile_n, self.place = array, full[2], tile_n, place
        self.holds = nv.cdiv(tile_n, 64) * (1 if array.dtype.bits == 16 else 2)

    def prefetch(self, at: tuple[Any, Any, Any], rows: int) -> list[Any]:
        batch, _, col = at
        return [self._pair(batch, col + (left + nv.lane_id() * 2)) for left in range(0, self.tile_n, 64)]

    def _pair(self, batch: Any, col: Any) -> list[Any]:
        """Two neighbours, in one register if they fit."""
        low, high = (self.array[self.place(self.array, batch, 0, nv.min(col + i, self.cols - 1))] for i in (0, 1))
        bits = self.array.dtype.bits
        if bits == 16:
            return [wrap(pack_pair(low, high, self.array.dtype), nv.i32)]
        return [low, high] if bits == 32 else [nv.f32(low), nv.f32(high)]

    def elements(self, held: Any, fetched: Any, part: Part) -> list[Any]:
        found: list[Any] = []
        _, first = nv.layout.accumulator_element(nv.lane_id(), 0)
        (mine,) = opaque(first // 2)  # LLVM would keep the eight lanes below in registers
        for col in part.columns:
            pair = [nv.shuffle(x, mine + col % 64 // 2) for x in held[col // 64]]
            found += 2 * (pair if len(pair) == 2 else _unpacked(pair[0], self.array.dtype))
        return found


class Elements(Source):
    """Each element its own; or (``repeated``) one for each column, where no registers are left to hold them."""

    def __init__(
        self, array: nv.Array, full: Sequence[int], tile_n: int, place: Callable[..., Any], aligned: bool,
        repeated: bool = False, clips: bool = False,
    ) -> None:  # fmt: skip
        self.array, self.tile_n, self.place, self.clips = array, tile_n, place, clips
        self.rows, self.cols = full[1:]
        *steps, right = array.strides if place is not turned_place else (*array.strides[:-2], *array.strides[:-3:-1])
        self.contiguous = isinstance(right, int) and right == 1
        self.paired = aligned and self.contiguous and all(multiple(n) % 2 == 0 for n in (self.cols, *steps))
        self.repeated = repeated
        self.registers = max(array.dtype.bytes / 4, 0.5 if self.paired else 1.0) / (2 if repeated else 1)
        unit = math.gcd(64, tile_n, multiple(self.cols))
        self.units = 64 if multiple(self.rows) % 64 == 0 else 1, unit if unit >= 8 else 1 + self.paired

    def prefetch(self, at: tuple[Any, Any, Any], rows: int) -> None:
        """Bring the tile into L2, where its rows are contiguous."""
        if not self.contiguous:
            return
        batch, row, col = at
        rows = 1 if self.repeated else rows
        each = LINE // self.array.dtype.bytes
        beside = nv.cdiv(self.tile_n, each)
        (thread,) = opaque(nv.warpgroup_thread())  # LLVM would keep its quotients from tile to tile
        for first in range(0, rows * beside, 128):
            line = nv.min(thread + first, rows * beside - 1)
            r, c = nv.min(row + line // beside, self.rows - 1), nv.min(col + line % beside * each, self.cols - 1)
            memory.prefetch(self.array, self.place(self.array, batch, r, c))

    def load(self, at: tuple[Any, Any, Any], part: Part) -> list[Any]:
        if not self.clips or part.top == part.columns[0] == 0:
            return self._elements(at, part)
        zero = self.array.dtype(0)
        fetched: list[Any] = [nv.vector([zero, zero]) if self.paired else zero] * (part.count // (1 + self.paired))
        if (at[1] + part.top < self.rows) & (at[2] + part.columns[0] < self.cols):
            fetched = self._elements(at, part)
        return fetched

    def _elements(self, at: tuple[Any, Any, Any], part: Part) -> list[Any]:
        batch, row, col = at
        row, col = opaque(row, col)
        row0, col0 = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
        down, right = self.units
        each = 2 if self.paired else 1
        row_of = functools.cache(lambda i: inside(row, row0, part.top + i, self.rows, down))
        col_of = functools.cache(lambda j: inside(col, col0, part.left + j, self.cols, right))
        fetched = []
        for register in range(part.first, part.first + part.count, each):
            i, j = nv.layout.accumulator_element(0, register)
            r, c = row_of(i), col_of(j)
            key = self.place(self.array, batch, index(r[0]) + r[1], index(c[0]) + c[1])
            fetched.append(self.array.load_vector(key, 2) if self.paired else self.array[key])
        return fetched

    def elements(self, held: Any, fetched: Any, part: Part) -> list[Any]:
        if not self.paired:
            return fetched
        return [wrap(vector.extract(pair, [], [i]), self.array.dtype) for pair in fetched for i in (0, 1)]


def _unpacked(pair: Any, dtype: nv.DType) -> list[Any]:
    """Two 16-bit values of one i32."""
    both = llvm.bitcast(ir.VectorType.get([2], dtype.ir), pair)
    return [wrap(vector.extract(both, [], [i]), dtype) for i in (0, 1)]
