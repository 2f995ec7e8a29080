"""The sequences of a call of attention: how long each is, and where it lies."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, NamedTuple

import nvdsl as nv
from nvdsl.kernels.blocks.divisor import Divisor
from nvdsl.values import dtypes

UNIT = 8
"""16-bit elements of an access of 16 bytes."""

Starts = nv.Shaped[nv.Array, "starts"]
KeyStarts = nv.Shaped[nv.Array, "key_starts"]
Lengths = nv.Shaped[nv.Array, "sequences"]
Pages = nv.Shaped[nv.Array, "sequences", "pages"]


class Sequence(NamedTuple):
    """``queries``, ``keys``: how many it has. ``q_batch``, ``q_first``: where its queries start in q and in the result,
    ``k_batch``, ``k_first``: where its keys start in k and v (paged ones start at 0 of their table)."""

    queries: nv.Int
    keys: nv.Int
    q_batch: nv.Int
    q_first: nv.Int
    k_batch: nv.Int
    k_first: nv.Int


class Sequences:
    """Made in the host function. ``q``: (batch, queries, ...), ``k``: (batch, keys, ...); with ``q_starts`` or
    ``k_starts`` all sequences lie one behind the other in a single batch, number i from ``starts[i]`` to
    ``starts[i + 1]``. ``used``: how many of its keys a sequence has. ``table``: k is (pages, keys of a page, ...), and
    ``table[i, p]`` the page of sequence i that has its keys from ``p * keys of a page`` on."""

    def __init__(
        self, q: nv.Array, k: nv.Array, q_starts: nv.Array | None, k_starts: nv.Array | None, used: nv.Array | None,
        table: nv.Array | None,
    ) -> None:  # fmt: skip
        self._q_starts, self._k_starts, self._used, self._table = q_starts, k_starts, used, table
        self.rows, self._keys = q.shape[1], k.shape[1]
        self._page = Divisor.of(k.shape[1]) if table is not None else None
        self.count: nv.Int = q.shape[0] if q_starts is None else q_starts.shape[0] - 1
        self.packed = q_starts is not None
        self.ragged = k_starts is not None or used is not None or table is not None
        self.most_keys: nv.Int = k.shape[1] if table is None else k.shape[1] * table.shape[1]
        if k_starts is not None:
            self.most_keys = nv.cdiv(k.shape[1], nv.max(self.count, 1))  # what one has in the mean

    def of(self, batch: nv.Int, whole_warp: bool) -> Sequence:
        """``whole_warp``: all lanes of a warp ask. ptxas then knows that all go on with the same numbers."""

        def read(array: nv.Array, at: nv.Int) -> Any:
            return nv.shuffle(array[at], 0) if whole_warp else array[at]

        queries, q_batch, q_first = self.rows, batch, nv.i32(0)
        if self._q_starts is not None:
            q_batch, q_first = nv.i32(0), read(self._q_starts, batch)
            queries = read(self._q_starts, batch + 1) - q_first
        keys, k_batch, k_first = self.most_keys, batch, nv.i32(0)
        if self._k_starts is not None:
            k_batch, k_first = nv.i32(0), read(self._k_starts, batch)
            keys = read(self._k_starts, batch + 1) - k_first
        if self._used is not None:
            keys = nv.min(read(self._used, batch), keys)
        return Sequence(queries, keys, q_batch, q_first, k_batch, k_first)

    def tiles(self, positions: int) -> nv.Int:
        """Numbers for the tiles of ``positions`` queries of all sequences, of packed ones. Sequence i has those from
        ``starts[i] // positions + i`` on, which are as many as it needs, or one more."""
        return self.rows // positions + self.count

    def find(self, number: nv.Int, positions: int, whole_warp: bool) -> tuple[nv.Value, nv.Value]:
        """The sequence of such a number, and the first query of its tile. There is none where that is not below the
        sequence's queries: at its end, and in front of the first sequence."""
        starts = self._q_starts
        assert starts is not None
        low, high = nv.i32(0), nv.i32(self.count)
        while high - low > 1:
            if whole_warp:  # each lane asks for one of 32 between these: each turn waits for memory
                step = nv.cdiv(high - low, 32)
                mine = low + nv.lane_id() * step
                inside = mine < high
                if inside:
                    inside = starts[mine] // positions + mine <= number
                low = low + nv.max(nv.warp.sum(nv.select(inside, 1, 0)) - 1, 0) * step
                high = nv.min(low + step, high)
            else:
                middle = (low + high) >> 1
                inside = starts[middle] // positions + middle <= number
                low, high = nv.select(inside, middle, low), nv.select(inside, high, middle)
        start = nv.shuffle(starts[low], 0) if whole_warp else starts[low]
        tile = number - start // positions - low
        return low, nv.select(tile < 0, self.rows, tile * positions)

    def outside(self, row: nv.Int) -> Any:
        """Whether a row of packed sequences lies before the first one, or behind the last one."""
        starts = self._q_starts
        if starts is None:
            return False
        return (row < starts[0]) | (row >= starts[starts.shape[0] - 1])

    def clear(self, x: nv.Array, new: Any, lse: nv.Array | None, worker: nv.Int, workers: nv.Int) -> None:
        """In the rows of no sequence: zeros in ``x``, (1, rows, ..., size), if it is ``new``, and -infinity in ``lse``,
        (1, 1, heads, rows). By a warp, one of so many."""
        starts = self._q_starts
        assert starts is not None
        units, first, end = x.shape[-1] // UNIT, starts[0], starts[starts.shape[0] - 1]
        heads: nv.Int = functools.reduce(operator.mul, x.shape[2:-1])
        zeros = nv.vector([dtypes.element(x.dtype)(0.0)] * UNIT)
        for number in nv.range(worker, first + x.shape[1] - end, workers, unroll=False):
            row = nv.select(number < first, number, number - first + end)
            for i in nv.range(nv.lane_id(), heads * units, 32, unroll=False):
                head, column = i // units, i % units * UNIT
                of_heads = (head,) if len(x.shape) == 4 else (head // x.shape[3], head % x.shape[3])
                x.store((0, row, *of_heads, column), zeros, predicate=new)
            if lse is not None:
                for head in nv.range(nv.lane_id(), heads, 32, unroll=False):
                    lse[0, 0, head, row] = -math.inf

    def place(self, sequence: Sequence, batch: nv.Int, key: nv.Int) -> tuple[nv.Int, nv.Int]:
        """Where the keys from ``key`` on lie in k and v: batch or page, and row."""
        if self._page is None or self._table is None:
            return sequence.k_batch, sequence.k_first + key
        page, row = self._page.divmod(key)
        return self._table[batch, nv.min(page, self._table.shape[1] - 1)], row
