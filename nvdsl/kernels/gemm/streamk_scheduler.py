"""Stream-K: the tiles that don't fill a round are cut along K, so that every block gets the same amount of work.

With T tiles of S slices of K each and P blocks, T // P full rounds leave T % P tiles, for which all blocks would wait
a whole round. Instead these are laid end to end, a line of slices, and every block takes an equal piece of it before
its whole tiles. A piece is at most as long as a tile, and may begin and end within one: the blocks of such a tile add
up their sums.

    block     3                 2                 1                 0
    pieces    |-----------------|-----------------|-----------------|-----------------|
    tiles     | tile 0                 | tile 1                 | tile 2              |
                                ^ block 2 has the end of tile 0: it gives its sums to block 3, which has the start

The block that has a tile's first slices owns it, and stores it. What a block has to give comes first in its work; and a
block is given to by such of lower numbers, which the GPU starts first: whoever is waited for runs. Who adds what in
which order is fixed: the result is the same, bit for bit, in every run.

All functions are pure: Python ints or traced integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import nvdsl as nv

LEAST = 8
"""Slices of a piece, at least: for fewer, handing over takes as long as it saves."""
UNEVEN = 1 / 32
"""Of a tile's slices: by so many a piece may be longer, that tiles are cut alike."""
WORTH = 1 / 4
"""Of a round: what cutting has to save at least."""


class Unit(NamedTuple):
    """Slices ``first`` to ``last - 1`` of a tile. ``round``: of a whole tile, how many came before it."""

    tile: Any
    first: Any
    last: Any
    round: Any


@dataclass(frozen=True)
class StreamKScheduler:
    """How ``tiles`` tiles of ``steps`` slices are spread over ``blocks`` blocks.

    The numbers ``0 .. cut - 1`` of tiles are cut; the rest, a multiple of ``blocks``, are computed whole. ``least``:
    slices of a piece.
    """

    tiles: int
    steps: int
    blocks: int
    least: int = LEAST

    @property
    def cut(self) -> int:
        """TileScheduler that are cut: what full rounds leave."""
        return self.tiles % self.blocks

    @property
    def ratio(self) -> tuple[int, int]:
        """Pieces, and the tiles that they are of: so many tiles are always cut into so many pieces. They are few:
        many tiles are read at the same place along K at the same time, and what one block reads is in L2 for others."""
        line = self.cut * self.steps
        if line == 0:
            return 1, 1
        most = max(self.cut, min(self.blocks, line // self.least))
        longest = nv.cdiv(line, most) + int(self.steps * UNEVEN)
        if longest > self.steps * (1 - WORTH):
            return 1, 1
        ratios = ((most * tiles // self.cut, tiles) for tiles in range(1, self.cut + 1))
        return next((g, m) for g, m in ratios if nv.cdiv(m * self.steps, g) <= longest)

    @property
    def pieces(self) -> int:
        """Pieces of the line: one for each block, or less."""
        pieces, tiles = self.ratio
        return nv.cdiv(self.cut * pieces, tiles)

    def fitted(self) -> StreamKScheduler:
        """The same without blocks that have nothing to do."""
        if self.tiles >= self.blocks or self.pieces == self.blocks:
            return self
        return replace(self, blocks=self.pieces).fitted()

    @property
    def is_cut(self) -> bool:
        """Whether any tile is cut into parts."""
        return self.pieces > self.cut

    @property
    def longest(self) -> int:
        """Slices of the longest piece: what a block has to do beside its whole tiles."""
        pieces, tiles = self.ratio
        return nv.cdiv(tiles * self.steps, pieces) if self.cut else 0

    def begin(self, piece: Any) -> Any:
        """First slice of a piece on the line; of piece number ``pieces`` the line's end."""
        pieces, tiles = self.ratio
        each, more = divmod(tiles * self.steps, pieces)
        return nv.min(piece * each + piece * more // pieces, self.cut * self.steps)

    def _cut(self, block: Any) -> tuple[Any, Any, Any]:
        """Where a block's piece begins, where the tile ends in which it begins (or the piece, if that is first), and
        where the piece ends."""
        piece = nv.min(self.blocks - 1 - block, self.pieces)
        begin, end = self.begin(piece), self.begin(nv.min(piece + 1, self.pieces))
        return begin, nv.min((begin // self.steps + 1) * self.steps, end), end

    def units(self, block: Any) -> Any:
        """How many units a block's work has."""
        begin, middle, end = self._cut(block)
        return nv.select(begin < middle, 1, 0) + nv.select(middle < end, 1, 0) + self.tiles // self.blocks

    def unit(self, block: Any, number: Any) -> Unit:
        """A block's unit ``number``: one or two parts of its piece, or none, then whole tiles."""
        begin, middle, end = self._cut(block)
        parts = nv.select(begin < middle, 1, 0) + nv.select(middle < end, 1, 0)
        whole = number >= parts
        round = number - parts
        at, to = nv.select(number == 0, begin, middle), nv.select(number == 0, middle, end)
        tile = at // self.steps
        return Unit(
            nv.select(whole, self.cut + block + round * self.blocks, tile),
            nv.select(whole, 0, at - tile * self.steps),
            nv.select(whole, self.steps, to - tile * self.steps),
            nv.select(whole, round, 0),
        )

    def following(self, block: Any, number: Any) -> Any:
        """Slices of a block's unit after ``number``, if there is one."""
        _, middle, end = self._cut(block)
        return nv.select((number == 0) & (middle < end), end - middle, self.steps)
