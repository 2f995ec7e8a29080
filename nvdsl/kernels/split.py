"""Stream-K: tiles cut along K, so that every block gets the same amount of work.

With T tiles of S slices of K each and P blocks, T // P full rounds leave T % P tiles, for which all blocks would wait
a whole round. Instead one round and the rest (all tiles, where there is no full round) are laid end to end, a line
of slices, and every block takes an equal piece of it. A piece may begin and end within a tile: the blocks of such
a tile add up their sums.

    block     0               1               2               3
    pieces    |---------------|---------------|---------------|---------------|
    tiles     | tile 0    | tile 1    | tile 2    | tile 3    | tile 4        |
                              ^ block 0 owns tile 1: it has its first slices

The block that has a tile's first slices owns it. It comes to them at the end of its piece; the others came to theirs at
the start of their own, so the sums are there when the owner wants them. Who adds what in which order is fixed:
the result is the same, bit for bit, in every run.

All functions are pure: Python ints or traced integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nvdsl as nv


@dataclass(frozen=True)
class Split:
    """How ``tiles`` tiles of ``steps`` slices are spread over ``blocks`` blocks.

    The numbers ``0 .. shared - 1`` of tiles are cut; the rest, a multiple of ``blocks``, are computed whole.
    """

    tiles: int
    steps: int
    blocks: int

    @property
    def shared(self) -> int:
        """Tiles that are cut: none where the blocks come out even, else the last round and what it leaves."""
        rounds, rest = divmod(self.tiles, self.blocks)
        if rest == 0:
            return 0
        return rest + (self.blocks if rounds else 0)

    @property
    def slices(self) -> int:
        """Length of the line."""
        return self.shared * self.steps

    def begin(self, block: Any) -> Any:
        """First slice on the line of a block's piece; of block ``blocks`` the end of the line."""
        each, longer = divmod(self.slices, self.blocks)
        return block * each + nv.min(block, longer)

    def work(self, block: Any) -> Work:
        """A block's work, before its first unit."""
        return Work(self, self.begin(block), self.begin(block + 1), self.shared + block)


class Work:
    """Where a block stands in its work: a piece of the line, then whole tiles. Immutable; a traced loop carries it.

    ``at``, ``end``: what is left of the piece; ``whole``: the tile that comes after it.
    """

    def __init__(self, split: Split, at: Any, end: Any, whole: Any) -> None:
        self.split, self.at, self.end, self.whole = split, at, end, whole

    @property
    def left(self) -> Any:
        """Whether there is another unit."""
        return (self.at < self.end) | (self.whole < self.split.tiles)

    @property
    def tile(self) -> Any:
        return nv.select(self.at < self.end, self.at // self.split.steps, self.whole)

    @property
    def first(self) -> Any:
        """The unit's first slice within its tile."""
        return nv.select(self.at < self.end, self.at % self.split.steps, 0)

    @property
    def last(self) -> Any:
        """One past the unit's last slice."""
        steps = self.split.steps
        return nv.select(self.at < self.end, nv.min(self.first + (self.end - self.at), steps), steps)

    def next(self) -> Work:
        cut = self.at < self.end
        return Work(
            self.split,
            nv.select(cut, self.at + (self.last - self.first), self.at),
            self.end,
            nv.select(cut, self.whole, self.whole + self.split.blocks),
        )

    def __nv_values__(self) -> list[Any]:
        return [self.at, self.end, self.whole]

    def __nv_rebuild__(self, values: Any) -> Work:
        return Work(self.split, *values)
