"""The producer's side: Q, K and V on their way into shared memory."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.config import Config
from nvdsl.kernels.attention.sequences import Sequence, Sequences
from nvdsl.kernels.attention.tiles import Place, Steps
from nvdsl.values import dtypes

CLEARED = 9
"""A named barrier of all consumers."""

States = tuple[nv.PipelineState, nv.PipelineState, nv.PipelineState]
"""Places in the rings of Q, K and V."""


class Loads:
    """Tensor maps, made in the host function; tiles and rings, made in the kernel by `allocate`.

    Of paged keys a tile may take several boxes, ``config.page`` rows of a page each.
    """

    def __init__(self, q: nv.Array, k: nv.Array, v: nv.Array, config: Config, ways: Sequences) -> None:
        self._config, self._ways, self.dtype = config, ways, q.dtype
        self._tile_m = 64 * config.consumers
        self._box = config.page or config.tile_n
        d, dv = config.sizes
        self._q = nv.TMA(q, tile=(1, self._tile_m // config.pack, 1, config.pack, d), swizzle=config.swizzle(d))
        self._k = nv.TMA(k, tile=(1, self._box, 1, d), swizzle=config.swizzle(d))
        self._v = nv.TMA(v, tile=(1, self._box, 1, dv), swizzle=config.swizzle(dv))

    def allocate(self) -> None:
        """Shared memory of Q, K and V, and their rings; the block meets afterwards."""
        config, (d, dv) = self._config, self._config.sizes
        self.Q = nv.smem((config.q_stages, self._tile_m, d), self.dtype, swizzle=config.swizzle(d))
        self.K = nv.smem((config.k_stages, config.tile_n, d), self.dtype, swizzle=config.swizzle(d))
        self.V = nv.smem((config.stages, config.tile_n, dv), self.dtype, swizzle=config.swizzle(dv))
        warps = 4 * config.consumers
        self.q_ring = nv.Ring(config.q_stages, bytes=self.Q.bytes, consumers=warps, sync=False)
        self.k_ring = nv.Ring(config.k_stages, bytes=self.K.bytes, consumers=warps, sync=False)
        self.v_ring = nv.Ring(config.stages, bytes=self.V.bytes, consumers=warps, sync=False)

    def states(self) -> States:
        """Where consumers start."""
        return self.q_ring.consumer_state(), self.k_ring.consumer_state(), self.v_ring.consumer_state()

    def begin(self) -> States:
        """Where the producer starts."""
        return self.q_ring.producer_state(), self.k_ring.producer_state(), self.v_ring.producer_state()

    def load(self, states: States, place: Place, way: Sequence, steps: Steps) -> States:
        """Load Q of a tile, and K and V of all that it sees, from the last to the first. By one thread."""
        qs, ks, vs = states
        tile_n, key = self._config.tile_n, steps.top * self._config.tile_n
        at = way.q_batch, way.q_first + place.first, place.kv_head, place.shared, 0
        if not self._config.k_first:
            self._q.load(self.Q[qs.stage], self.q_ring.acquire(qs), at)
        there = self._rows(place, way, key)
        self._keys(self._k, self.K[ks.stage], self.k_ring.acquire(ks), there, place.kv_head)
        if self._config.k_first:
            self._q.load(self.Q[qs.stage], self.q_ring.acquire(qs), at)
        qs, ks = qs.next(), ks.next()
        for _ in nv.range(steps.count - 1, unroll=False):
            key = key - tile_n
            following = self._rows(place, way, key)
            self._keys(self._k, self.K[ks.stage], self.k_ring.acquire(ks), following, place.kv_head)
            self._keys(self._v, self.V[vs.stage], self.v_ring.acquire(vs), there, place.kv_head)
            ks, vs, there = ks.next(), vs.next(), following
        self._keys(self._v, self.V[vs.stage], self.v_ring.acquire(vs), there, place.kv_head)
        return qs, ks, vs.next()

    def _rows(self, place: Place, way: Sequence, key: Any) -> list[tuple[Any, Any]]:
        """Where each box of a tile of keys lies: batch or page, and row."""
        return [self._ways.place(way, place.batch, key + i) for i in range(0, self._config.tile_n, self._box)]

    def _keys(self, tma: nv.TMA, tile: nv.Tile, full: Any, there: Any, kv_head: Any) -> None:
        for i, (batch, row) in enumerate(there):
            part = tile.rows(i * self._box, self._box) if self._box < self._config.tile_n else tile
            tma.load(part, full, (batch, row, kv_head, 0))

    def clear(self, tile: nv.Tile, keys: Any, me: Any) -> None:
        """Zero what a tile of V holds beyond the sequence's ``keys``: whatever lies there, zero times it is to be zero.
        By all consumers, this one is number ``me``."""
        rows, cols = tile.shape
        threads, units = 128 * self._config.consumers, cols // 8
        if keys < rows:
            zeros = nv.vector([dtypes.element(self.dtype)(0.0)] * 8)
            for unit in nv.range(nv.max(keys, 0) * units + me * 128 + nv.warpgroup_thread(), rows * units, threads):
                tile.store_vector(zeros, (unit // units, unit % units * 8))
            nv.fence_proxy_async()
            nv.named_barrier_sync(CLEARED, threads)
