"""Which tile of queries comes when, and which tiles of keys its queries see."""

from __future__ import annotations

from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.hopper import arch
from nvdsl.kernels.attention.sequences import Sequences
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.tile_scheduler import RowGroups

L2_BYTES = 32 * 2**20
"""Of arrays that are to stay in L2."""
LAST_TILES = 4 * arch.SMS
"""Of unequal tiles so many, as they come last, keep all SMs busy to the end if the longest of them come first."""


class Place(NamedTuple):
    """Of a tile of queries: the sequence, the head of keys, the first head of those that share it, the first query,
    and which part of the keys."""

    batch: Any
    kv_head: Any
    shared: Any
    first: Any
    split: Any


class Tiles:
    """The tiles of all queries of all heads, in the order in which blocks take them. Made in the host function.

    A tile has ``positions`` queries of each of ``pack`` heads, which share a head of keys; ``group`` heads share one.
    Tiles that share a head of keys come one after the other, so that its K and V (``key_bytes`` for each key) are read
    once from memory. ``descending``: the last queries come first, which see the most keys in causal attention; the last
    heads, whose K and V fit into L2 together, come side by side then, so that the longest tiles don't end last.
    ``splits``: parts of the keys, each of which has a tile of its own.
    """

    def __init__(
        self, sequences: Sequences, kv_heads: nv.Int, group: nv.Int, positions: int, pack: int, key_bytes: int,
        descending: bool, splits: nv.Int | None,
    ) -> None:  # fmt: skip
        self.positions, self.pack, self.descending, self._sequences = positions, pack, descending, sequences
        parts = nv.cdiv(group, pack)
        packed = sequences.packed
        self.rows: nv.Int = sequences.tiles(positions) if packed else nv.cdiv(sequences.rows, positions)
        shared = kv_heads if packed else kv_heads * sequences.count
        self.count = shared * parts * self.rows * (1 if splits is None else splits)
        last: nv.Int | None = None
        if descending:
            together = nv.max(L2_BYTES // key_bytes // nv.max(sequences.most_keys, 1), 1)
            last = parts * nv.min(together, nv.cdiv(LAST_TILES, nv.max(parts * self.rows, 1)))
        self._order = RowGroups(shared * parts, self.rows, parts, last)
        self._parts, self._kv_heads = Divisor.of(parts), Divisor.of(kv_heads)
        self.splits = None if splits is None else Divisor.of(splits)

    def place(self, t: nv.Int, whole_warp: bool = True) -> Place:
        """Of tile number ``t``. ``whole_warp``: see `Sequences.of`."""
        split: nv.Int = 0
        if self.splits is not None:
            t, split = self.splits.divmod(t)
        which, row = self._order.place(t)
        which, part = self._parts.divmod(which)
        if self.descending:
            row = self.rows - 1 - row
        if self._sequences.packed:
            way, first = self._sequences.find(row, self.positions, whole_warp)
            return Place(way, which, part * self.pack, first, split)
        batch, kv_head = self._kv_heads.divmod(which)
        return Place(batch, kv_head, part * self.pack, row * self.positions, split)


class Round:
    """A place in `Rounds`: the number of a tile. A traced loop carries it."""

    def __init__(self, rounds: Rounds, tile: nv.Int) -> None:
        self.rounds, self.tile = rounds, tile

    @property
    def valid(self) -> Any:
        """Whether there is such a tile."""
        return self.tile < self.rounds.count

    def __nv_values__(self) -> list[Any]:
        return [self.tile]

    def __nv_rebuild__(self, values: list[Any]) -> Round:
        return Round(self.rounds, values[0])


class Rounds:
    """Tiles ``first``, ``first + step``, ... below ``count``: a fixed order, used as `nv.TileQueue` is."""

    def __init__(self, first: nv.Int, count: nv.Int, step: nv.Int) -> None:
        self.first, self.count, self.step = first, count, step

    def begin(self) -> Round:
        return Round(self, nv.i32(self.first))

    def next(self, work: Round) -> Round:
        return Round(self, work.tile + self.step)

    draw = next


@dataclass(frozen=True)
class Steps:
    """The tiles of keys of one tile of queries: ``count`` of them, 1 or more, from number ``top`` down. ``masked``: how
    many of the first ones, at least 1, and ``masked_last``: how many of the last ones have keys that some queries don't
    see. ``end``: behind the last key of these tiles; there may be none."""

    top: nv.Int
    count: nv.Int
    masked: nv.Int
    masked_last: nv.Int
    end: nv.Int


@dataclass(frozen=True)
class Sight:
    """Query i sees the keys j of ``keys`` with ``i + shift - left <= j <= i + shift + right``: the last query of
    ``queries`` stands at the last key. ``left``, ``right``: None where it sees all on that side."""

    queries: nv.Int
    keys: nv.Int
    left: nv.Int | None
    right: nv.Int | None

    def end(self, query: Any) -> Any:
        """Behind the last key that it sees; of a query, or of a vector of them."""
        if self.right is None:
            return self.keys
        return nv.minimum(query + (self.keys - self.queries + self.right + 1), self.keys)

    def begin(self, query: Any) -> Any:
        """The first key that it sees, or less than 0."""
        assert self.left is not None
        return query + (self.keys - self.queries - self.left)

    def steps(
        self, first: nv.Int, positions: int, tile: int, split: nv.Int = 0, splits: Divisor | None = None
    ) -> Steps:
        """Of ``positions`` queries from ``first`` on, with ``tile`` keys each; of part ``split`` of ``splits`` of them,
        which differ by a tile at most. Where nothing is seen, one tile is shown, which is masked."""
        last = nv.min(first + positions, self.queries) - 1
        end = nv.cdiv(nv.max(self.end(last), 0), tile)
        begin: nv.Int = 0 if self.left is None else nv.max(self.begin(first), 0) // tile
        if splits is not None:
            each, more = splits.divmod(nv.max(end - begin, 0))
            begin = begin + split * each + nv.min(split, more)
            end = begin + each + nv.select(split < more, 1, 0)
        count = nv.max(end - begin, 1)
        masked: nv.Int = 1
        if self.right is not None:
            masked = nv.clamp(end - nv.max(self.end(first), 0) // tile, 1, count)
        masked_last: nv.Int = 0
        if self.left is not None:
            masked_last = nv.clamp(nv.cdiv(nv.max(self.begin(last), 0), tile) - begin, 0, count - masked)
        return Steps(begin + count - 1, count, masked, masked_last, end * tile)
