"""Before attention's backward kernel: what each row of Q adds to dS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.errors.records import dataclass
from nvdsl.kernels.attention.gradient_scores import Scoring
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, QueryTile
from nvdsl.kernels.attention.scores import LOG2_E

ACCESS = 8
"""16-bit elements of an access of 16 bytes."""
THREADS = 128
TOGETHER = 4
"""Rows that a thread loads before it adds up the first one."""
FAR = 2.0**14
"""From here on LSE, in f32, is too coarse for weights."""


@dataclass(frozen=True)
class Told:
    """Scores to which something is added that depends on their query and key: a mask of -1e9, say, or of the least of
    all numbers. If all that a query sees is hidden so, LSE is that number, and has lost the logarithm of how many keys
    these are. Made in the host function."""

    q: nv.Array
    k: nv.Array
    scoring: Scoring

    def excess(self, at: QueryTile, query: nv.Int, group: nv.Int, logs: nv.Number) -> Any:
        """The logarithm to base 2 of what ``exp(score - logs)`` adds up to for a query: 0, but for what LSE has lost.
        By all threads of a block."""
        one, size, scoring = at.sequence, self.q.shape[3], self.scoring
        own, scores = query + (one.keys - one.queries), scoring.scores
        total = nv.f32(0.0)
        for key in nv.range(nv.thread_id.x, one.keys, THREADS, unroll=False):
            s = nv.f32(0.0)
            for column in nv.range(0, size, ACCESS, unroll=False):
                q = self.q.vector((one.q_batch, one.q_first + query, at.head, column), ACCESS)
                k = self.k.vector((one.k_batch, one.k_first + key, at.head // group, column), ACCESS)
                s = s + (q.to(nv.f32) * k.to(nv.f32)).sum()
            x = s * scoring.scale
            if scoring.kind.softcap:
                x = nv.math.tanh_approx(s * (scoring.scale / scoring.softcap)) * scoring.softcap
            x = scores.told_of(x, at.number, at.head, query, key)
            sees = x > -math.inf
            if scoring.right is not None:
                sees = sees & (key <= own + scoring.right)
            if scoring.left is not None:
                sees = sees & (key >= own - scoring.left)
            total = total + nv.select(sees, nv.math.exp2_approx((x - logs) * LOG2_E), 0.0)
        return nv.math.log2_approx(nv.block.sum(total))


def pieces_of(tile_m: int, lanes: int) -> int:
    """Blocks of a tile: each thread has the rows that it loads together."""
    return max(tile_m * lanes // (THREADS * TOGETHER), 1)


def sum_rows(
    dout: nv.Array, out: nv.Array, lse: nv.Array, tiles: GradientTiles, tile_m: int, told: Told | None,
    clear: Callable[[nv.Int, nv.Int, int], None],
) -> nv.Array:  # fmt: skip
    """A row for each tile of ``tile_m`` queries of each head: LSE to base 2, and behind them the sums of O dO. With
    ``told`` LSE is as it was given, and behind all are `Told.excess`.

    LSE is infinity for queries that see nothing, and for those that fill up the last tile: all their weights become 0.
    ``clear``: what the 128 threads of a block do besides, for a piece of a tile, one of so many. Tiles come from the
    last to the first: of what this leaves in L2, the kernel that follows reads the first ones first.
    """
    size = out.shape[3]
    sums = nv.empty((tiles.count, (2 if told is None else 3) * tile_m), nv.f32)
    unit = LOG2_E if told is None else 1.0
    lanes = 1 << (-(-size // ACCESS) - 1).bit_length()
    pieces = pieces_of(tile_m, lanes)
    each = tile_m // pieces

    @nv.kernel(grid=tiles.count * pieces, block=THREADS)
    def sum_up() -> None:
        thread = nv.thread_id.x
        number, piece = tiles.count - 1 - nv.block_id.x // pieces, nv.block_id.x % pieces
        at = tiles.queries_of(number)
        sequence, head, query = at.sequence, at.head, at.query
        clear(number, piece, pieces)
        lane, column = thread % lanes, nv.min(thread % lanes * ACCESS, size - ACCESS)

        def place(row: Any) -> tuple[Any, Any]:
            """Whether the tile has a row, and where it lies, or another one."""
            exists = (row < tile_m) & (query + row < sequence.queries)
            at = sequence.q_first + nv.select(exists, query + row, 0)
            return exists, nv.select(sequence.queries > 0, at, 0)

        def loaded(row: Any) -> Any:
            _, here = place(row)
            o, do = (x.vector((sequence.q_batch, here, head, column), ACCESS) for x in (out, dout))
            return o, do, lse[sequence.q_batch, head, here]

        rows = [piece * each + thread // lanes + first for first in range(0, each, THREADS // lanes)]
        for some in [rows[i : i + TOGETHER] for i in range(0, len(rows), TOGETHER)]:
            found = [loaded(row) for row in some]  # all on their way before the first one is waited for
            for row, (o, do, logs) in zip(some, found, strict=True):
                exists, _ = place(row)
                mine = nv.select(lane * ACCESS < size, (o.to(nv.f32) * do.to(nv.f32)).sum(), 0.0)
                total = nv.warp.sum(mine, width=lanes)
                if (lane == 0) & (row < tile_m):
                    sees = exists & (logs != -math.inf)
                    sums[number, row] = nv.select(sees, logs * unit, math.inf)
                    sums[number, tile_m + row] = nv.select(exists, total, 0.0)
        if told is not None:
            for row in nv.range(piece * each, piece * each + each, unroll=False):
                exists, here = place(row)
                logs = lse[sequence.q_batch, head, here]
                excess = nv.f32(0.0)
                if exists & (nv.abs(logs) >= FAR) & (nv.abs(logs) < math.inf):
                    excess = told.excess(at, query + row, tiles.group, logs)
                if thread == 0:
                    sums[number, 2 * tile_m + row] = excess

    sum_up()
    return sums
