"""Which tile of rows of which head comes when, and which tiles of keys its rows see."""

from __future__ import annotations

import nvdsl as nv

L2_BYTES = 32 * 2**20
"""Of K and V of the heads that are worked on side by side: what stays in L2."""


class Tiles:
    """Tiles of ``tile_m`` rows of ``heads`` heads of ``rows`` rows, which see ``keys`` keys in tiles of ``tile_n``.

    Heads are taken in groups whose K and V (``head_bytes`` each head) fit into L2; in a group the heads change fastest,
    and the longest rows come first. ``blocks``: of a persistent grid; 0: a block for each tile. ``causal``: row i sees
    the keys 0 .. i + keys - rows.
    """

    def __init__(
        self, heads: int, shared: int, rows: int, keys: int, tile_m: int, tile_n: int, head_bytes: int, blocks: int,
        causal: bool,
    ) -> None:  # fmt: skip
        self.heads, self.keys, self.tile_m, self.tile_n, self.causal = heads, keys, tile_m, tile_n, causal
        self.offset = keys - rows
        self.rows = nv.cdiv(rows, tile_m)
        self.count = self.rows * heads
        self.persistent = 0 < blocks < self.count
        self.grid = blocks if self.persistent else self.count
        self.group = shared
        while self.group * 2 <= heads and self.group * 2 // shared * head_bytes <= L2_BYTES:
            self.group *= 2
        starts = range(self.offset, rows + self.offset, tile_m)
        self.masked = max(min(nv.cdiv(keys, tile_n), nv.cdiv(r + tile_m, tile_n)) - (r + 1) // tile_n for r in starts)
        if not causal:
            self.masked = 1

    def rounds(self, block: nv.Int) -> nv.Int:
        """How many tiles a block works on."""
        if not self.persistent:
            return nv.i32(1)
        whole, rest = self.count // self.grid, self.count % self.grid
        return nv.i32(whole) + nv.select(self._snake(block, whole) < rest, 1, 0)

    def _snake(self, block: nv.Int, turn: nv.Int) -> nv.Int:
        """A block's place in a turn: forward and backward by turns, so that long and short tiles even out."""
        return nv.select(nv.i32(turn) & 1 == 1, self.grid - 1 - block, block)

    def place(self, block: nv.Int, turn: nv.Int) -> tuple[nv.Int, nv.Int]:
        """Head and first row of the tile that ``block`` works on in its ``turn``."""
        t = turn * self.grid + self._snake(block, turn) if self.persistent else block
        band, within = t // (self.group * self.rows), t % (self.group * self.rows)
        size = self.group if self.heads % self.group == 0 else nv.min(self.group, self.heads - band * self.group)
        row = within // size
        if self.causal:
            row = self.rows - 1 - row
        return band * self.group + within % size, row * self.tile_m

    def seen(self, row: nv.Int) -> nv.Int:
        """Tiles of keys that the rows from ``row`` on see."""
        every = nv.cdiv(self.keys, self.tile_n)
        if not self.causal:
            return nv.i32(every)
        last = row + (self.tile_m + self.offset + self.tile_n - 1)
        return nv.min(every, nv.i32(nv.u32(last) // self.tile_n))
