"""What is done with a tile's sums before they are converted, a part of a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.kernels.blocks.clamped_index import inside, opaque
from nvdsl.kernels.blocks.elementwise import Elementwise, Part, Source, source

Visit = Callable[..., Any]
"""``visit(value, batch, row, col, *operands) -> value``: what is done with a sum before it is converted. ``value``: of
the accumulator's type; ``batch``, ``row``, ``col``: its place in the result, i32, always inside of it (``batch`` is the
int 0 where there is one); ``operands``: the further arguments of the GEMM (arrays, scalars). Traced once for each
register: keep it small. What it reads it waits for; `Elementwise` is the visit whose operands are there in time."""

Place = tuple[Any, Any, Any]
"""Batch, row and column of a tile's first element."""


def visitor(visit: Visit | None, operands: Sequence[Any], out: nv.Array, tile_n: int) -> Visitor:
    """What carries out a visit of the tiles of ``out``, of ``tile_n`` columns. Made in the host function."""
    if visit is None:
        return Visitor()
    if isinstance(visit, Elementwise):
        return ElementsVisitor(visit, operands, out, tile_n)
    return PlacesVisitor(visit, operands, out)


class Visitor:
    """Leaves the sums as they are; and what the others do."""

    def ahead(self, at: Place, rows: int) -> Any:
        """Start to read what a tile of ``rows`` rows needs. Before the sums are there, best before the loop over K."""

    def fetch(self, at: Place, part: Part) -> Any:
        """Start to read what a part needs. Before the part ahead of it leaves."""

    def visited(self, values: Sequence[Any], at: Place, part: Part, held: Any, fetched: Any) -> Sequence[Any]:
        """The part's values. ``held``, ``fetched``: what `ahead` and `fetch` returned."""
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


class ElementsVisitor(Visitor):
    """Hands a visit the operands' elements, read ahead."""

    ROOM = 16
    """Registers for what is held while the sums are computed: what the largest tiles leave."""
    FIRST, MOST = 4, 16
    """Registers for the elements of the first part, and of later ones: as sums leave, theirs get free. The more arrays,
    the fewer."""

    def __init__(self, visit: Elementwise, operands: Sequence[Any], out: nv.Array, tile_n: int) -> None:
        self.function = visit.function
        self.sources: list[Source] = []
        room = self.ROOM
        for operand in operands:
            self.sources.append(source(operand, out, tile_n, visit.aligned, room))
            room -= self.sources[-1].holds
        self.each = sum(one.registers for one in self.sources)
        self.share = self.MOST // max(1, sum(isinstance(operand, nv.Array) for operand in operands))

    def most(self, gone: int) -> int:
        if not self.each:
            return super().most(gone)
        return max(8, int(min(self.FIRST + gone, self.share) / self.each) // 8 * 8)

    def ahead(self, at: Place, rows: int) -> list[Any]:
        return [one.ahead(at, rows) for one in self.sources]

    def fetch(self, at: Place, part: Part) -> list[Any]:
        return [one.fetch(at, part) for one in self.sources]

    def visited(self, values: Sequence[Any], at: Place, part: Part, held: Any, fetched: Any) -> Sequence[Any]:
        if self.each:
            nv.sync_warp()  # nothing is read before: it would need registers of its own
        given = zip(self.sources, held, fetched, strict=True)
        found = [one.elements(before, now, part) for one, before, now in given]
        return [self.function(value, *elements) for value, *elements in zip(values, *found, strict=True)]


class PlacesVisitor(Visitor):
    """Tells a visit each value's place."""

    def __init__(self, visit: Visit, operands: Sequence[Any], out: nv.Array) -> None:
        self.visit, self.operands, self.shape = visit, operands, out.shape[-2:]

    def most(self, gone: int) -> int:
        """16 columns of 64 rows: what a visit reads needs registers beside the sums."""
        return 8

    def visited(self, values: Sequence[Any], at: Place, part: Part, held: Any, fetched: Any) -> Sequence[Any]:
        nv.sync_warp()  # no load moves before it: it would need registers of its own
        batch, row, col = at
        row, col = opaque(row, col)
        row0, col0 = nv.layout.accumulator_element(nv.warpgroup_thread(), 0)
        rows, cols = self.shape
        units = 64 if rows % 64 == 0 else 1, next((unit for unit in (16, 8) if cols % unit == 0), 1)
        found = []
        for register, value in enumerate(values, part.first):
            r, c = nv.layout.accumulator_element(0, register)
            (r, down), (c, right) = (
                inside(row, row0, part.top + r, rows, units[0]), inside(col, col0, part.left + c, cols, units[1])
            )  # fmt: skip
            found.append(self.visit(value, batch, r + down, c + right, *self.operands))
        return found
