"""Which tile of keys, and which tile of queries, comes when in the gradients' kernels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.hopper import arch
from nvdsl.kernels.attention.sequences import Sequence, Sequences
from nvdsl.kernels.attention.tiles import L2_BYTES, LAST_TILES
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.kernels.blocks.tile_scheduler import RowGroups
from nvdsl.ops.order import recomputed, recomputing

LONG = 128
"""Tiles of keys of a head, whose blocks go over its queries so far apart that L2 serves it no better alone."""
WAITING = 8
"""Tiles of keys of a head, about, that are worked on side by side where blocks wait for each other and heads share
keys. With more they wait longer, with less Q, dO and dQ come from memory more often."""
BYTES = 8
"""Of an element of a head: Q and dO in 16 bits, dQ in f32."""

OfQueries = nv.Shaped[nv.Array, "batch", "queries", "heads", ...]
OfKeys = nv.Shaped[nv.Array, "key_batch", "keys", "kv_heads", ...]
Logarithms = nv.Shaped[nv.Array, "batch", "heads", "queries"]


class KeyTile(NamedTuple):
    """Keys of a sequence, from ``key`` on, of a head of k and v. There are none where ``key`` is not below the
    sequence's keys. ``block``: its number among all. ``head``: the first head of q that the block takes, and ``share``:
    which part of the queries that see these keys."""

    number: nv.Int
    sequence: Sequence
    kv_head: nv.Int
    key: nv.Int
    block: nv.Int
    head: nv.Int
    share: nv.Int


class QueryTile(NamedTuple):
    """Queries of sequence ``number``, from ``query`` on, of a head of q; there may be none."""

    number: nv.Int
    sequence: Sequence
    head: nv.Int
    query: nv.Int


class Seeing:
    """Which queries see which keys of a block. Made in the kernel. ``left``, ``right``: how many keys before and behind
    its own a query sees, None for all. ``first``, ``end``: the tiles of queries that see any, ``count`` of them.
    ``backwards``: whether the block takes the tiles from the last to the first. ``told``: whether all blocks take the
    tiles in their order. Else, where all queries see all keys, each block starts at another tile: else all would add to
    dQ of the same one at the same time.
    """

    def __init__(
        self, tiles: GradientTiles, at: KeyTile, left: nv.Int | None, right: nv.Int | None, backwards: bool, told: bool
    ) -> None:
        self._key, self._keys, self._left, self._right = at.key, at.sequence.keys, left, right
        self._queries, self._heads, self._interleaved = at.sequence.queries, tiles.by_heads, tiles.interleaved
        self._tile_m, self._tile_n = tiles.tile_m, tiles.tile_n
        self.offset, first, end = tiles.seeing(at, left, right)
        self.first, self.end = tiles.share(at, first, end)
        self.count = nv.max(self.end - self.first, 0)
        whole = not (tiles.packed or tiles.packed_keys) and tiles.shares is None
        self._some = left is None and right is None and whole
        self._backwards, self._descending, self._told = backwards, tiles.descending, told
        self._turned: nv.Int | None = None
        if left is None and right is None and not (backwards or told) and tiles.tile_m == tiles.tile_n:
            self._turned = nv.min(at.key // tiles.tile_m, self.count)

    @property
    def any(self) -> Any:
        """Whether a query sees any of the keys; True where that is so for all tiles."""
        return True if self._some else self.first < self.end

    @property
    def loops(self) -> tuple[nv.Int, nv.Int]:
        """Turns of a consumer's two loops, of which `step` takes the numbers. Before each turn of the outer one scores
        are computed, beside which nothing is."""
        heads, count = self._heads.value, self.count
        outer, inner = (1, count * heads) if self._interleaved else (heads, count)
        return outer if self._some else nv.select(self.any, outer, 0), inner

    def step(self, outer: nv.Int, inner: nv.Int, rows_matter: bool = True) -> tuple[nv.Int, nv.Int]:
        """The tile of queries, and which of the block's heads. ``rows_matter``: else the tile may be another one where
        all queries see all keys."""
        i, head = self._heads.divmod(inner) if self._interleaved else (inner, outer)
        return self.tile(i, rows_matter), head

    @property
    def nested(self) -> tuple[nv.Int, nv.Int]:
        """Turns of two loops over the same steps, of which `nested_step` takes the numbers."""
        heads, count = self._heads.value, self.count
        return (count, heads) if self._interleaved else (heads, count)

    def nested_step(self, outer: nv.Int, inner: nv.Int) -> tuple[nv.Int, nv.Int]:
        """The tile of queries, and which of the block's heads."""
        i, head = (outer, inner) if self._interleaved else (inner, outer)
        return self.tile(i), head

    def tile(self, i: nv.Int, rows_matter: bool = True) -> nv.Int:
        """The tile of queries that the block takes as number ``i`` of a head. ``rows_matter``: see `step`."""
        if self._backwards:
            return self.end - 1 - i
        if self._turned is None or not rows_matter:
            return self.first + i
        turned = i + self._turned
        return self.first + nv.select(turned >= self.count, turned - self.count, turned)

    def turn(self, tile: nv.Int) -> nv.Int:
        """How many tiles of keys a tile of queries sees that come before this one."""
        if self._descending and self._right is not None:
            seen = (tile * self._tile_m + (self._tile_m - 1) + self.offset + self._right) // self._tile_n
            return nv.min(seen, (self._keys - 1) // self._tile_n) - self._key // self._tile_n
        before: nv.Int = 0
        if self._left is not None:
            before = nv.max(tile * self._tile_m + self.offset - self._left, 0) // self._tile_n
        return self._key // self._tile_n - before

    def partly(self, row: Any) -> Any:
        """Whether a query of the tile from ``row`` on does not see a key of the block."""
        key = recomputed(self._key)
        last = key + (self._tile_n - 1)
        partly = last >= self._keys
        if self._right is not None:
            partly = partly | (row + (self.offset + self._right) < last)
        if self._left is not None:
            partly = partly | (row + (self.offset + self._tile_m - 1 - self._left) > key)
        return partly

    def half(self, row: Any) -> Any:
        """Whether one of the 64 queries from ``row`` on sees a key of the block."""
        key = recomputed(self._key)
        sees = row < self._queries
        if self._right is not None:
            sees = sees & (row + (self.offset + 63 + self._right) >= key)
        if self._left is not None:
            sees = sees & (row + (self.offset - self._left) < key + self._tile_n)
        return sees

    def hide(self, x: Any, key: Any, row: Any, *, transposed: bool = False) -> Any:
        """-infinity where a query does not see a key: ``x`` has the queries from ``row`` on in its rows, the keys from
        ``key`` on in its columns; ``transposed``: the other way round. Where each element stands is found anew for
        each bound: it would take registers."""

        def keys() -> Any:
            return (x.rows if transposed else x.cols) + key

        def queries() -> Any:
            return x.cols if transposed else x.rows

        with recomputing():
            sees = keys() < self._keys
            left, right = self._left, self._right
            if left is not None and right is not None and not self._told:  # at once, which takes fewer registers
                behind = queries() + (row + self.offset + right) - keys()
                return nv.where(sees & (behind.to(nv.u32) <= nv.u32(left + right)), x, -math.inf)
            if right is not None:
                sees = sees & (queries() + (row + self.offset + right) >= keys())
            if left is not None:
                sees = sees & (queries() + (row + self.offset - left) <= keys())
        return nv.where(sees, x, -math.inf)


class GradientTiles:
    """Tiles of ``tile_n`` keys, each for one block, and numbers for the tiles of ``tile_m`` queries. Made in the host
    function.

    Heads are taken in bands, and in a band the heads change fastest, from the first keys to the last: in causal
    attention those are first that the most queries see, and the blocks that come last are short. ``bands``: whether
    tiles are so unequal, or wait for those with the keys before them, which shall have begun earlier. Then a band has
    as many heads as fit into L2 with their queries and dQ (of heads that share one of k and v, one at a time), and the
    last one more: the long tiles of a few heads would end last. Of long heads it has as many as keep all SMs busy to
    the end. Else a band is one head. ``descending``: whether tiles come from the last keys to the first.
    ``interleaved``: blocks that wait for each other take a tile of queries of each of their heads before the next one,
    and a band has so many heads that few blocks of each are at work: they stay close together, in whichever head they
    are, and read the same queries. ``shares``:
    several blocks, one after the other, have the same keys. The first number says into how many parts the queries are
    cut that see them, the second one into how many the heads of q.
    """

    def __init__(
        self, q: nv.Array, k: nv.Array, q_starts: nv.Array | None, k_starts: nv.Array | None, tile_m: int, tile_n: int,
        bands: bool, descending: bool = False, interleaved: bool = False,
        shares: tuple[nv.Int, nv.Int] | None = None,
    ) -> None:  # fmt: skip
        self._sequences = Sequences(q, k, q_starts, k_starts, None, None)
        self._by_keys = Sequences(k, q, k_starts, q_starts, None, None)
        self.tile_m, self.tile_n = tile_m, tile_n
        self.descending, self.interleaved = descending, interleaved
        self.packed, self.packed_keys = q_starts is not None, k_starts is not None
        self._heads, self._kv_heads = q.shape[2], k.shape[2]
        self.group = self._heads // self._kv_heads
        self.rows = self._sequences.tiles(tile_m) if self.packed else nv.cdiv(q.shape[1], tile_m)
        self._columns = self._by_keys.tiles(tile_n) if self.packed_keys else nv.cdiv(k.shape[1], tile_n)
        self.count = self._heads * self.rows * (1 if self.packed else self._sequences.count)
        """Numbers of tiles of queries of all heads."""
        every = self._kv_heads * (1 if self.packed_keys else self._sequences.count)
        self.key_tiles = every * self._columns
        self.shares, self.heads, self.blocks = None, self.group, self.key_tiles
        if shares is not None:
            self.shares, self._parts = (Divisor.of(n) for n in (shares[0] * shares[1], shares[0]))
            self.heads, self.blocks = self.group // shares[1], self.key_tiles * self.shares.value
        self.by_heads = Divisor.of(self.heads)
        together: nv.Int = 1
        last: nv.Int | None = None
        if bands:
            head = q.shape[3] * BYTES
            together = nv.max(L2_BYTES // (head * nv.max(q.shape[1] if not self.packed else 1, 1)), 1)
            last = nv.select(self._columns < LONG, together, nv.cdiv(LAST_TILES, nv.max(self._columns, 1)))
        if interleaved:
            together = last = nv.max(arch.SMS // (WAITING * (1 if self.shares is None else self.shares.value)), 1)
        self._order = RowGroups(every, self._columns, nv.min(together, nv.max(every, 1)), last)

    def keys_of(self, block: nv.Int, whole_warp: bool) -> KeyTile:
        """The keys of a block. ``whole_warp``: see `Sequences.of`."""
        number: nv.Int
        key: nv.Int
        of_heads: nv.Int
        share: nv.Int
        tile, of_heads, share = block, 0, 0
        if self.shares is not None:
            tile, share = self.shares.divmod(block)
            of_heads, share = self._parts.divmod(share)
        outer, column = self._order.place(tile)
        if self.descending:
            column = self._columns - 1 - column
        if self.packed_keys:
            kv_head = outer
            number, key = self._by_keys.find(column, self.tile_n, whole_warp)
        else:
            number, kv_head, key = outer // self._kv_heads, outer % self._kv_heads, column * self.tile_n
        sequence = self._sequences.of(number, whole_warp)
        head = kv_head * self.group + of_heads * self.heads
        return KeyTile(number, sequence, kv_head, key, block, head, share)

    def seeing(self, at: KeyTile, left: nv.Int | None, right: nv.Int | None) -> tuple[Any, Any, Any]:
        """How far keys are ahead of queries, the first tile of queries that see the keys of ``at``, and the one behind
        the last. ``left``, ``right``: how many keys before and behind its own a query sees, None for all."""
        offset, every = at.sequence.keys - at.sequence.queries, nv.cdiv(at.sequence.queries, self.tile_m)
        first: Any = nv.i32(0)
        end: Any = nv.i32(every)
        if right is not None:
            first = nv.min(nv.max(at.key - offset - right, 0) // self.tile_m, every)
        if left is not None:
            end = nv.min(nv.cdiv(nv.max(at.key + self.tile_n - offset + left, 0), self.tile_m), every)
        if self.packed_keys:
            end = nv.select(at.key < at.sequence.keys, end, first)
        return offset, first, end

    def share(self, at: KeyTile, first: nv.Int, end: nv.Int) -> tuple[Any, Any]:
        """Of these tiles of queries, the block's part: they differ by a tile at most."""
        if self.shares is None:
            return first, end
        each, more = self._parts.divmod(nv.max(end - first, 0))
        first = first + at.share * each + nv.min(at.share, more)
        return first, first + each + nv.select(at.share < more, 1, 0)

    def first(self, number: nv.Int, sequence: Sequence, head: nv.Int) -> nv.Int:
        """The number of the first tile of queries of a sequence, of a head of q; those of the next head come ``rows``
        later."""
        if self.packed:
            return head * self.rows + sequence.q_first // self.tile_m + number
        return (number * self._heads + head) * self.rows

    def queries_of(self, tile: nv.Int) -> QueryTile:
        """The tile of queries of such a number."""
        number: nv.Int
        query: nv.Int
        outer, row = tile // self.rows, tile % self.rows
        if self.packed:
            head = outer
            number, query = self._sequences.find(row, self.tile_m, False)
        else:
            number, head, query = outer // self._heads, outer % self._heads, row * self.tile_m
        return QueryTile(number, self._sequences.of(number, False), head, query)

    def clear(self, dq: nv.Array, dk: nv.Array, dv: nv.Array, new: nv.Int, worker: nv.Int, workers: nv.Int) -> None:
        """Zeros in the rows of no sequence of those that are ``new``: of dq (1), dk (2) and dv (4). By a warp, one of
        so many."""
        for i, (x, ways) in enumerate(((dq, self._sequences), (dk, self._by_keys), (dv, self._by_keys))):
            if ways.packed:
                ways.clear(x, new >> i & 1 == 1, None, worker, workers)

    def clipped(self, x: nv.Array, batch: nv.Int, first: nv.Int, count: nv.Int, head: nv.Int) -> Any:
        """The rows of a sequence, (rows, size), of an array of packed ones."""
        return x.view((batch, first, head, 0), (1, count, 1, x.shape[3]))[0, :, 0, :]
