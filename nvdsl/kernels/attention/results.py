"""The epilogue: a consumer's rows of O, and their logarithms, on the way to global memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.config import Config, swizzle
from nvdsl.kernels.attention.load import Loads
from nvdsl.kernels.attention.parts import MET, ClusterParts
from nvdsl.kernels.attention.scores import LOG2_E, Rows, Scores
from nvdsl.kernels.attention.sequences import Sequence, Sequences
from nvdsl.kernels.attention.tiles import Place
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.lang.tile import Tile
from nvdsl.lang.tile_stack import TileStack
from nvdsl.layout.tile import TileLayout

Placed = Callable[[Any], tuple[tuple[Any, ...], Any]]
"""Of a row of a tile: the indices of its result, all but the last, and whether it is one."""

UNIT = 8
"""Elements of 16 bits that a thread stores at once."""


class Results:
    """``o``, or ``parts`` in its place, and ``lse``, as `forward.attention` takes them. Made in the host function.

    O goes through shared memory to a TMA store; where rows of other sequences lie behind a tile's, each row is stored.
    Parts of the keys that the blocks of a cluster have are added up first, those of other blocks by another kernel.
    """

    def __init__(
        self, o: nv.Array | None, parts: nv.Array | None, lse: nv.Array | None, config: Config, ways: Sequences,
        group: Any,
    ) -> None:  # fmt: skip
        self._o, self._parts, self._lse, self._config, self._group = o, parts, lse, config, group
        self._size = config.sizes[1]
        self._columns = config.o_columns or self._size
        self.apart = config.o_apart
        """Whether results have shared memory of their own, not that of Q."""
        self._tma = None
        if o is not None and config.cluster == 1 and not ways.packed:
            box = (1, 64 // config.pack, 1, config.pack, self._columns)
            self._tma = nv.TMA(o, tile=box, swizzle=swizzle(2 * self._columns))

    def allocate(self, loads: Loads) -> None:
        """Shared memory; in the kernel."""
        self._staged: Any = loads.Q
        rows = 64 * self._config.consumers
        if self._config.cluster > 1:
            self._shared = ClusterParts(self._config, rows, self._size, loads.K)
        elif self.apart and self._o is not None and self._config.over_keys:
            layout = TileLayout.of(rows, self._size, 2, swizzle(2 * self._size))
            self._staged = TileStack(1, 0, Tile(layout, self._o.dtype, loads.K.first.offset))
        elif self.apart and self._o is not None:
            self._staged = nv.smem((1, rows, self._columns), self._o.dtype, swizzle=swizzle(2 * self._columns))

    def store(
        self, acc: Any, m: Any, total: Any, inverse: Any, scores: Scores, place: Place, way: Sequence, first: Any,
        me: Any, stage: Any,
    ) -> None:  # fmt: skip
        """Store the rows of consumer ``me``: ``acc * inverse``, of the queries from ``first`` on. ``m``, ``total``:
        what was subtracted from their scores, and sums; ``stage``: of Q in shared memory."""
        pack, lane, lift = self._config.pack, nv.lane_id(), self._config.lift

        def placing(query: Any) -> Placed:
            rows = Rows(place, query, self._group, pack)

            def placed(row: Any) -> Any:
                _, at = rows.of(row)
                inside = (at < way.queries) & (place.shared + row % pack < self._group)
                return (way.q_batch, way.q_first + at, place.kv_head, place.shared + row % pack), inside

            return placed

        placed = placing(first + me * (64 // pack))
        if self._config.cluster > 1:
            assert self._o is not None
            live = nv.min((way.queries - first) * pack, 64 * self._config.consumers)
            self._shared.put(acc, m * scores.unit - lift / LOG2_E if lift else m * scores.unit, total, me)
            nv.cluster_sync()
            self._shared.add_up(live, placing(first), self._o, self._lse)
            nv.cluster_sync()  # no block ends while others read its memory
            return
        out = nv.where((total == 0.0)[:, None], 0.0, acc * inverse[:, None])
        if self._parts is not None:
            store_sums(out, self._parts, lambda row: _under(place.split, placed(row)))
        else:
            self._store_tile(out, placed, place, first + me * (64 // pack), me, stage)
        if self._lse is not None:
            logs = m * scores.unit + nv.math.log2_approx(total) * (1 / LOG2_E)
            logs = logs - lift / LOG2_E if lift else logs
            for row, x in logs.elements():
                (batch, query, kv_head, shared), inside = placed(row)
                where = place.split, batch, kv_head * self._group + shared, query
                self._lse.store(where, x, predicate=inside & (lane % 4 == 0))

    def _store_tile(self, out: Any, placed: Placed, place: Place, query: Any, me: Any, stage: Any) -> None:
        tile_o = self._staged[0 if self.apart else stage].rows(me * 64, 64)
        if not self.apart:
            tile_o = tile_o.cols(0, self._size)
        if self._config.over_keys:
            nv.named_barrier_sync(MET, 128 * self._config.consumers)  # nobody reads K any more
        if self._tma is None:
            assert self._o is not None
            for col in range(0, self._o.shape[-1], self._columns):
                out[:, col : col + self._columns].store(tile_o)  # Q's rows of this warpgroup have been read
                nv.fence_proxy_async()
                store_rows(tile_o, self._o, placed, col)
            return
        for col in range(0, self._size, self._columns):
            if col or self.apart and self._config.blocks:  # what was there before is being stored, maybe
                nv.bulk_wait_group(0, read=True)
                nv.named_barrier_sync(1 + me, 128)
            out[:, col : col + self._columns].store(tile_o)
            nv.fence_proxy_async()
            nv.named_barrier_sync(1 + me, 128)
            if nv.warpgroup_thread() == 0:
                self._tma.store(tile_o, (place.batch, query, place.kv_head, place.shared, col))
                nv.bulk_commit_group()
        if not self.apart:
            nv.bulk_wait_group(0, read=True)

    def meet(self) -> None:
        """Beside `store`, by the warps of the cluster that store nothing."""
        nv.cluster_sync()
        nv.cluster_sync()

    def drain(self) -> None:
        """Wait until the last tile has been read; shared memory is free then."""
        if self.apart and self._tma is not None:
            nv.bulk_wait_group(0, read=True)


def _under(part: Any, placed: Any) -> Any:
    at, inside = placed
    return (part, *at), inside


def store_rows(tile: nv.Tile, out: nv.Array, placed: Placed, begin: int = 0) -> None:
    """Store the rows of a tile in shared memory, 64 of 16-bit elements: each warp those that it wrote to the tile.
    ``begin``: the column of ``out`` that its first one is."""
    nv.sync_warp()
    units = min(tile.shape[1], out.shape[-1] - begin) // UNIT  # of a row
    first = nv.warpgroup_thread() // 32 * 16
    for step in range(nv.cdiv(16 * units, 32)):
        unit = nv.lane_id() + 32 * step
        row, col = unit // units, unit % units * UNIT
        at, inside = placed(first + row)
        vector = tile.vector((first + nv.min(row, 15), col), UNIT)
        out.store((*at, begin + col), vector, predicate=inside & (row < 16))
    nv.sync_warp()


def store_sums(sums: nv.Accumulator, out: nv.Array, placed: Placed) -> None:
    """Store 64 rows from registers, in f32."""
    elements = [(row, x) for row, _, x in sums.elements()]
    pairs = list(zip(elements[::2], elements[1::2], strict=True))
    first = nv.i64(opaque(nv.lane_id() % 4 * 2)[0])  # LLVM would know its bits, and keep an address for each column
    for mine in (pairs[::2], pairs[1::2]):  # of a thread's two rows: two of each eight columns
        at, inside = placed(mine[0][0][0])
        if inside:
            for block, ((_, x), (_, y)) in zip(range(0, out.shape[-1], 8), mine, strict=False):
                out.store_vector(nv.vector([x, y]), (*at, first + block))
