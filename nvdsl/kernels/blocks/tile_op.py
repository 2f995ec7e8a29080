"""Epilogues that work on all sums of a tile at once: gated products, reductions beside the result, quantizing.

The sums are a fragment, a tensor in registers (docs/fragments.md), so that a visitor is a function of a few lines:
`tile_ops` has some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import nvdsl as nv
from nvdsl.errors import ArgumentError
from nvdsl.errors.records import dataclass
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.kernels.blocks.epilogue_visitor import Part, Place, Visitor
from nvdsl.lang.matrix import Matrix


@dataclass(frozen=True)
class TilePlace:
    """Where the sums that a function gets lie in the result: ``batch``, and ``row`` and ``col`` of the first one.

    ``shape``: rows and columns of the result. ``number``: of the tile, or of the piece, along N. ``barrier``: a named
    barrier of this warpgroup.
    """

    batch: nv.Int
    row: nv.Int
    col: nv.Int
    shape: tuple[nv.Int, nv.Int]
    number: nv.Int
    barrier: nv.Int = 0
    free: Callable[[], nv.Array] | None = None

    def inside(self, x: Matrix, other: float) -> Any:
        """``x``, and ``other`` where it lies beyond the edges of the result."""
        (rows, cols), (m, n) = self.shape, x.shape
        if not (isinstance(rows, int) and rows % m == 0):
            x = nv.where(x.rows + self.row < rows, x, other)
        if not (isinstance(cols, int) and cols % n == 0):
            x = nv.where(x.cols + self.col < cols, x, other)
        return x

    def scratch(self) -> nv.Array:
        """2,048 f32 of shared memory that only this warpgroup uses, for reductions with ``axis=0``: the buffer through
        which the result leaves. All its threads ask for it together, before a piece leaves."""
        if self.free is None:
            raise ArgumentError(
                "scratch() in an epilogue of pieces",
                rule="while pieces leave, their buffer is in use",
                fix="TileOp(function) without pieces=True",
            )
        return self.free()


@dataclass(frozen=True)
class Operand:
    """What a function of tiles takes: an array of this shape, of ``dtype`` (None: of any), or an integer where it has
    no shape."""

    name: str
    shape: tuple[int, ...] | None = None
    dtype: nv.DType | None = None
    optional: bool = False


@dataclass(frozen=True, repr=False)
class TileOp:
    """``function(sums, at, *operands) -> values``, of all sums of a tile that a warpgroup has. An `EpilogueOp`.

    ``sums``: an f32 fragment of the warpgroup's rows and the tile's columns; ``at``: its `TilePlace`; ``operands``: the
    further arguments of the GEMM, to which it may also write. What it returns, of the shape of ``sums``, is converted
    and stored. What it reads it waits for. If it has an attribute ``expects``, `nvdsl.kernels.gemm` calls it on the
    host: ``expects(config, out)``, of the `Config` and the result's shape and type, lists its `Operand`s, and others
    are refused.

    ``pieces``: instead of the whole tile the function gets 64 rows of 128 bytes of the result at a time, each when it
    is about to leave. So it has more registers for what it reads.

    ``halves``: 2 for a gated product. B has twice as many columns as the result then, (K, 2 N), and ``sums`` is a pair
    of fragments: the sums of the same places with the first N columns of B, and with the other N. Each is half as wide
    as `Config.tile_n`.
    """

    function: Callable[..., Any]
    halves: int = 1
    pieces: bool = False

    def __repr__(self) -> str:
        """The same in every process: what was tuned is found by it."""
        return f"TileOp({getattr(self.function, '__qualname__', None) or repr(self.function)})"

    def visitor(self, operands: Sequence[Any], out: nv.Array, tile_n: int) -> Visitor:
        return TileVisitor(self, operands, out, tile_n)


class TileVisitor(Visitor):
    """Hands the function of a `TileOp` the sums before they leave."""

    def __init__(self, op: TileOp, operands: Sequence[Any], out: nv.Array, tile_n: int) -> None:
        self.op, self.operands, self.shape, self.tile_n = op, operands, out.shape[-2:], tile_n
        self.width = 128 // out.dtype.bytes
        self.whole = not op.pieces
        self.needs_place = bool(operands)  # blocks of a cluster may have a tile that begins beyond the edge

    def tile(self, acc: nv.Accumulator, at: Place, barrier: nv.Int, free: Callable[[], nv.Array]) -> nv.Accumulator:
        if self.op.pieces:
            return acc
        sums = acc.to(nv.f32)
        place = TilePlace(*at, self.shape, at[2] // self.tile_n, barrier, free)
        halves = [sums[:, start : start + self.tile_n] for start in range(0, acc.n, self.tile_n)]
        return self._called(halves, place)

    def sums(self, registers: Sequence[Sequence[Any]], part: Part) -> Sequence[Any]:
        block = registers[part.top // 64]
        if not self.op.pieces:
            return block[part.of]
        beside = [slice(part.of.start + more, part.of.stop + more) for more in range(0, len(block), self.tile_n // 2)]
        return [value for half in beside for value in block[half]]

    def visit(self, values: Sequence[Any], at: Place, part: Part, held: Any, fetched: Any) -> Sequence[Any]:
        if not self.op.pieces:
            return values
        nv.sync_warp()  # nothing is read before: it would need registers of its own
        piece = nv.accumulator(64, 2 * part.count)
        halves = [
            piece.with_registers([[nv.f32(value) for value in values[start : start + part.count]]])
            for start in range(0, len(values), part.count)
        ]
        batch, row, col = at
        number = col // self.tile_n * nv.cdiv(self.tile_n, self.width) + part.left // self.width
        row, col = opaque(row + part.top, col + part.left)
        place = TilePlace(batch, row, col, self.shape, number)
        return self._called(halves, place).registers()[0]

    def _called(self, halves: Sequence[Any], place: TilePlace) -> nv.Accumulator:
        values = self.op.function(halves[0] if len(halves) == 1 else tuple(halves), place, *self.operands)
        wanted = halves[0].shape
        nv.require(
            isinstance(values, Matrix) and values.shape == wanted,
            f"{self.op} returned {values!r}",
            rule=f"a tile's epilogue returns what is stored, a fragment of {wanted[0]} x {wanted[1]} here",
            fix="return what it computes of the sums, or the sums themselves where they don't change",
        )
        return values.to(nv.f32)
