"""What is done with a tile's sums before they are converted, a part of a piece at a time."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.blocks.clamped_index import inside, multiple, opaque

EpilogueOp = Callable[..., Any]
"""``op(value, batch, row, col, *operands) -> value``: what is done with a sum before it is converted. ``value``: of
the accumulator's type; ``batch``, ``row``, ``col``: its place in the result, i32, always inside of it (``batch`` is the
int 0 where there is one); ``operands``: the further arguments of the GEMM (arrays, scalars). Traced once for each
register: keep it small. What it reads it waits for. An op with a method ``visitor(operands, out, tile_n)`` brings its
own `Visitor`, as `nvdsl.kernels.blocks.elementwise.Elementwise` does, whose operands are there in time."""

Place = tuple[Any, Any, Any]
"""Batch, row and column of a tile's first element."""


@dataclass(frozen=True)
class Part:
    """``count`` registers, from ``first`` on, of a piece of 64 rows at (``top``, ``left``) in its tile."""

    top: int
    left: int
    first: int
    count: int

    @property
    def of(self) -> slice:
        """Among the registers of 64 rows of an accumulator."""
        start = self.left // 2 + self.first
        return slice(start, start + self.count)

    @property
    def columns(self) -> range:
        """Of the tile: where each group of 8, four registers of a thread, begins."""
        return range(self.left + self.first * 2, self.left + (self.first + self.count) * 2, 8)


def visitor(
    op: EpilogueOp | None, operands: Sequence[Any], out: nv.Array, tile_n: int, turned: bool = False
) -> Visitor:
    """What carries out an op on the tiles of ``out``, or of its transpose (``turned``), of ``tile_n`` columns. Made in
    the host function."""
    if op is None:
        return Visitor()
    if turned:
        nv.require(
            hasattr(op, "turns"),
            f"swapped operands with the epilogue {op!r}",
            rule="the transpose is computed, and this epilogue is written for rows and columns of the result",
            fix="swap_ab=False",
        )
        return op.visitor(operands, out, tile_n, turned=True)  # type: ignore[attr-defined]
    if hasattr(op, "visitor"):
        return op.visitor(operands, out, tile_n)
    return PlacesVisitor(op, operands, out, tile_n)


def returned(op: Any, result: Any, value: Any) -> Any:
    """What an op made of a sum: a value, or a number, which becomes one of the sum's type."""
    if isinstance(result, nv.Value):  # of all elements: the message below takes a while to write
        return result
    if isinstance(result, int | float):
        return value.dtype(result)
    nv.require(isinstance(result, nv.Value), f"the epilogue {op!r} returned {result!r}",
               rule="it returns what is stored in the place of a sum, a traced value or a number",
               fix="return value, where nothing changes")  # fmt: skip
    return result


def turns(op: EpilogueOp | None) -> bool:
    """Whether an op is as well carried out on the transpose of the result."""
    return op is None or getattr(op, "turns", False)


class Visitor:
    """Leaves the sums as they are; and what the others do."""

    def tile(self, acc: nv.Accumulator, at: Place, barrier: nv.Int, free: Callable[[], nv.Array]) -> nv.Accumulator:
        """All sums of a consumer at once, before the first part leaves. ``barrier``: a named barrier of its warpgroup;
        ``free``: waits until the memory through which they leave is free, and gives 8 KB of it as f32."""
        return acc

    whole = False
    """Whether `tile` depends on all of these."""
    needs_place = False
    """Whether what begins beyond the result's edges is left out: an operand has an element for each of the result's,
    and may be the result, or something is written for each tile."""

    def prefetch(self, at: Place, rows: int) -> Any:
        """Start to read what a tile of ``rows`` rows needs. Before the sums are there, best before the loop over K."""

    def load(self, at: Place, part: Part) -> Any:
        """Start to read what a part needs. Before the part ahead of it leaves."""

    def sums(self, registers: Sequence[Sequence[Any]], part: Part) -> Sequence[Any]:
        """The sums that the part's values are made of. ``registers``: of the accumulator, a list for each 64 rows."""
        return registers[part.top // 64][part.of]

    def visit(self, values: Sequence[Any], at: Place, part: Part, held: Any, fetched: Any) -> Sequence[Any]:
        """The part's values, of its `sums`. ``held``, ``fetched``: what `prefetch` and `load` returned."""
        return values

    def parts(self, top: int, left: int, registers: int, gone: int) -> list[Part]:
        """Of a piece at (``top``, ``left``) of a tile. ``gone``: registers of the pieces before it."""
        parts, first = [], 0
        while first < registers:
            parts.append(Part(top, left, first, min(self.most(gone + first), registers - first)))
            first += parts[-1].count
        return parts

    def most(self, gone: int) -> int:
        """Registers of a part before which ``gone`` sums have left; a multiple of 8."""
        return 128


class PlacesVisitor(Visitor):
    """Tells an op each value's place."""

    def __init__(self, op: EpilogueOp, operands: Sequence[Any], out: nv.Array, tile_n: int) -> None:
        self.op, self.operands, self.shape = op, operands, out.shape[-2:]
        unit = math.gcd(16, tile_n, multiple(self.shape[1]))  # columns that are inside or outside as one
        self.units = 64 if multiple(self.shape[0]) % 64 == 0 else 1, unit if unit >= 8 else 1

    def most(self, gone: int) -> int:
        """16 columns of 64 rows: what an op reads needs registers beside the sums."""
        return 8

    def visit(self, values: Sequence[Any], at: Place, part: Part, held: Any, fetched: Any) -> Sequence[Any]:
        nv.sync_warp()  # no load moves before it: it would need registers of its own
        batch, row, col = at
        row, col = opaque(row, col)
        row0, col0 = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
        rows, cols = self.shape
        row_of = functools.cache(lambda r: inside(row, row0, part.top + r, rows, self.units[0]))
        col_of = functools.cache(lambda c: inside(col, col0, part.left + c, cols, self.units[1]))
        found = []
        for register, value in enumerate(values, part.first):
            r, c = nv.layout.accumulator_element(0, register)
            (r, down), (c, right) = row_of(r), col_of(c)
            found.append(returned(self.op, self.op(value, batch, r + down, c + right, *self.operands), value))
        return found
