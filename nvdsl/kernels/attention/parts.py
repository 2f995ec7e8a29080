"""Parts of the keys that the blocks of a cluster worked on, added up through their shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.config import Config
from nvdsl.kernels.attention.scores import LOG2_E
from nvdsl.lang.tile import Tile
from nvdsl.layout.tile import TileLayout

MET = 9
"""A named barrier of all consumers."""
UNIT = 4
"""Elements that a thread adds up: 16 bytes of f32."""


class ClusterParts:
    """The sums of a cluster's blocks over the same ``rows`` of ``width`` elements. Made in the kernel.

    Each block puts its own where its tiles of K and V were, and then adds up a part of the rows of all.
    """

    def __init__(self, config: Config, rows: int, width: int, K: Any) -> None:
        nv.require(config.room_for_sums, f"parts in clusters with {config}", rule="sums fit where tiles of keys were")
        self._blocks, self._threads, self._units = config.cluster, 128 * config.consumers, width // UNIT
        self._sums = Tile(TileLayout.of(rows, width, 4, 0), nv.f32, K.first.offset)
        self._logs = nv.smem((rows, 2), nv.f32)

    def put(self, acc: Any, base: Any, total: Any, me: Any) -> None:
        """Consumer ``me``'s rows: sums over keys, what was subtracted from their scores as a natural logarithm, and
        the sums of the weights. Afterwards the cluster meets."""
        nv.named_barrier_sync(MET, self._threads)  # nobody reads K any more
        acc.store(self._sums.rows(me * 64, 64))
        for (row, x), (_, y) in zip(base.elements(), total.elements(), strict=True):
            if nv.lane_id() % 4 == 0:
                self._logs.store_vector(nv.vector([x, y]), (me * 64 + row, 0))

    def add_up(self, live: Any, placed: Callable[[Any], Any], o: nv.Array, lse: nv.Array | None) -> None:
        """Store this block's part of the first ``live`` rows. ``placed``: see `Results`."""
        count, group = live * self._units, o.shape[-2]
        each = nv.cdiv(count, self._blocks)
        start = nv.cluster_rank() * each
        thread = nv.thread_id.x - 128
        for unit in nv.range(start + thread, nv.min(start + each, count), self._threads, unroll=False):
            row, col = unit // self._units, unit % self._units * UNIT
            parts = range(self._blocks)
            logs = [self._logs.at(i).vector((row, 0), 2) for i in parts]
            highest = nv.f32(-math.inf)
            for x in logs:
                highest = nv.max(highest, x[0])
            base = nv.select(highest == -math.inf, 0.0, highest)
            total, mine = nv.f32(0.0), nv.vector([nv.f32(0.0)] * UNIT)
            for i in parts:
                weight = nv.math.exp2_approx((logs[i][0] - base) * LOG2_E)
                total += logs[i][1] * weight
                mine = mine + self._sums.at(i).vector((row, col), UNIT) * weight
            at, inside = placed(row)
            inverse = nv.select(total == 0.0, 0.0, 1.0 / total)
            o.store((*at, col), mine * inverse, predicate=inside & (col < o.shape[-1]))
            if lse is not None:
                batch, query, kv_head, shared = at
                logarithm = base + nv.math.log2_approx(total) * (1 / LOG2_E)
                lse.store((0, batch, kv_head * group + shared, query), logarithm, predicate=inside & (col == 0))
