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

Everything that is the same for all blocks is computed where the scheduler is made: by the host, where extents are known
to a run only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.kernels.blocks.divisor import Divisor

LEAST = 8
"""Slices of a piece, at least: for fewer, handing over takes as long as it saves."""
UNEVEN = 32
"""Parts of a tile's slices: by one of them a piece may be longer, that tiles are cut alike."""
WORTH = 4
"""Parts of a round: what cutting has to save at least is one of them."""
TRIED = 12
"""Tiles that may be cut alike: more are not looked for."""


class Unit(NamedTuple):
    """Slices ``first`` to ``last - 1`` of a tile. ``round``: of a whole tile, how many came before it."""

    tile: Any
    first: Any
    last: Any
    round: Any


class StreamKScheduler:
    """How ``tiles`` tiles of ``steps`` slices are spread over ``blocks`` blocks at most.

    The numbers ``0 .. cut - 1`` of tiles are cut; the rest, a multiple of ``blocks``, are computed whole. ``least``:
    slices of a piece. Made of Python ints, or of traced integers in the host function.

    ``blocks``: those that have something to do. ``pieces``: of the line, one for each block or less. ``ratio``: pieces,
    and the tiles that they are of: so many tiles are always cut into so many pieces. They are few: many tiles are read
    at the same place along K at the same time, and what one block reads is in L2 for others.
    """

    def __init__(self, tiles: nv.Int, steps: nv.Int, blocks: int, least: int = LEAST) -> None:
        self.tiles, self.steps, self.least = tiles, steps, least
        self.whole = tiles // blocks
        self.cut = tiles - self.whole * blocks
        line = self.cut * steps
        most = nv.max(self.cut, nv.min(blocks, line // least))
        some = nv.max(self.cut, 1)
        longest = nv.cdiv(line, nv.max(most, 1)) + steps // UNEVEN
        self.ratio = _ratio(most, some, steps, longest)
        self.pieces = nv.cdiv(self.cut * self.ratio[0], self.ratio[1])
        self.blocks = nv.select(tiles < blocks, self.pieces, blocks)
        self._steps, self._pieces = Divisor.of(steps), Divisor.of(self.ratio[0])
        stretch = self.ratio[1] * steps
        self._each = stretch // self.ratio[0]
        self._more = stretch - self._each * self.ratio[0]

    @property
    def is_cut(self) -> nv.Bool:
        """Whether any tile is cut into parts."""
        return self.pieces > self.cut

    @property
    def longest(self) -> nv.Int:
        """Slices of the longest piece: what a block has to do beside its whole tiles."""
        pieces, tiles = self.ratio
        return nv.select(self.cut > 0, nv.cdiv(tiles * self.steps, pieces), 0)

    def begin(self, piece: nv.Int) -> nv.Int:
        """First slice of a piece on the line; of piece number ``pieces`` the line's end."""
        return nv.min(piece * self._each + self._pieces.divmod(piece * self._more)[0], self.cut * self.steps)

    def _cut(self, block: nv.Int) -> tuple[nv.Int, nv.Int, nv.Int]:
        """Where a block's piece begins, where the tile ends in which it begins (or the piece, if that is first), and
        where the piece ends."""
        piece = nv.min(self.blocks - 1 - block, self.pieces)
        begin, end = self.begin(piece), self.begin(nv.min(piece + 1, self.pieces))
        return begin, nv.min((self._steps.divmod(begin)[0] + 1) * self.steps, end), end

    def units(self, block: nv.Int) -> nv.Int:
        """How many units a block's work has."""
        begin, middle, end = self._cut(block)
        return nv.select(begin < middle, 1, 0) + nv.select(middle < end, 1, 0) + self.whole

    def unit(self, block: nv.Int, number: nv.Int) -> Unit:
        """A block's unit ``number``: one or two parts of its piece, or none, then whole tiles."""
        begin, middle, end = self._cut(block)
        parts = nv.select(begin < middle, 1, 0) + nv.select(middle < end, 1, 0)
        whole = number >= parts
        round = number - parts
        at, to = nv.select(number == 0, begin, middle), nv.select(number == 0, middle, end)
        tile, first = self._steps.divmod(at)
        return Unit(
            nv.select(whole, self.cut + block + round * self.blocks, tile),
            nv.select(whole, 0, first),
            nv.select(whole, self.steps, to - tile * self.steps),
            nv.select(whole, round, 0),
        )

    def following(self, block: nv.Int, number: nv.Int) -> nv.Int:
        """Slices of a block's unit after ``number``, if there is one."""
        _, middle, end = self._cut(block)
        return nv.select((number == 0) & (middle < end), end - middle, self.steps)


def _ratio(most: nv.Int, cut: nv.Int, steps: nv.Int, longest: nv.Int) -> tuple[nv.Int, nv.Int]:
    """How many pieces, of how many tiles: the fewest tiles whose pieces are no longer than ``longest``. All that are
    cut in ``most`` pieces, where `TRIED` are not enough; a piece a tile where cutting saves nothing."""
    saves = (longest * WORTH <= steps * (WORTH - 1)) & (cut < most)
    if saves is False:
        return 1, 1
    tried: list[tuple[nv.Bool, nv.Int, int]] = []
    for some in range(1, TRIED + 1):
        number = nv.max(most * some // cut, 1)
        fits = (nv.cdiv(some * steps, number) <= longest) & (some <= cut)
        tried.append((fits, number, some))
        if fits is True:
            break
    pieces, tiles = most, cut
    for fits, number, some in reversed(tried):
        pieces, tiles = nv.select(fits, number, pieces), nv.select(fits, some, tiles)
    return nv.select(saves, pieces, 1), nv.select(saves, tiles, 1)
