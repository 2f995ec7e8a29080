"""The producer's side: Q, K and V on their way into shared memory."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.config import Config, swizzle
from nvdsl.kernels.attention.sequences import Sequence, Sequences
from nvdsl.kernels.attention.tiles import Place, Steps
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.values import dtypes

CLEARED = 9
"""A named barrier of those who clear a tile."""

States = tuple[nv.PipelineState, ...]
"""Places in the rings of Q, K and V."""


class Loads:
    """Tensor maps, made in the host function; tiles and rings, made in the kernel by `allocate`.

    Of paged keys a tile may take several boxes, ``config.page`` rows of a page each. ``together``: whether the
    producer's whole warpgroup calls ``load``, or one thread.
    """

    together = False

    def __init__(self, q: nv.Array, k: nv.Array, v: nv.Array, config: Config, ways: Sequences) -> None:
        self.config, self._ways, self.dtype = config, ways, q.dtype
        self._tile_m = 64 * config.consumers
        self._box = config.page or config.tile_n
        d, dv = config.sizes
        self._swizzles = swizzle(d * config.itemsize), swizzle(dv * config.itemsize)
        self._q = nv.TMA(q, tile=(1, self._tile_m // config.pack, 1, config.pack, d), swizzle=self._swizzles[0])
        self._k = nv.TMA(k, tile=(1, self._box, 1, d), swizzle=self._swizzles[0])
        self._v = nv.TMA(v, tile=(1, self._box, 1, dv), swizzle=self._swizzles[1])

    def allocate(self) -> None:
        """Shared memory of Q, K and V, and their rings; the block meets afterwards. Fetches the tensor maps."""
        for tma in (self._k, self._q, self._v):
            tma.prefetch(nv.thread_id.x == 0)
        config, (d, dv) = self.config, self.config.sizes
        self.Q = nv.smem((config.q_stages, self._tile_m, d), self.dtype, swizzle=self._swizzles[0])
        self.K = nv.smem((config.k_stages, config.tile_n, d), self.dtype, swizzle=self._swizzles[0])
        self.V = nv.smem((config.stages, config.tile_n, dv), self.dtype, swizzle=self._swizzles[1])
        self._warps = 4 * config.consumers
        self.q_ring = nv.Ring(config.q_stages, bytes=self.Q.bytes, consumers=self._warps, sync=False)
        self.k_ring = nv.Ring(config.k_stages, bytes=self.K.bytes, consumers=self._warps, sync=False)
        self._allocate_values()

    def _allocate_values(self) -> None:
        self.v_ring = nv.Ring(self.config.stages, bytes=self.V.bytes, consumers=self._warps, sync=False)

    def values(self, stage: Any) -> Any:
        """A tile of V as an operand, keys x size."""
        return self.V[stage]

    def states(self) -> States:
        """Where consumers start."""
        return self.q_ring.consumer_state(), self.k_ring.consumer_state(), self.v_ring.consumer_state()

    def begin(self) -> States:
        """Where the producer starts."""
        return self.q_ring.producer_state(), self.k_ring.producer_state(), self.v_ring.producer_state()

    def load(self, states: States, place: Place, way: Sequence, steps: Steps) -> States:
        """Load Q of a tile, and K and V of all that it sees, from the last to the first. By one thread."""
        qs, ks, vs = states
        key = steps.top * self.config.tile_n
        there = self.where(place, way, key)
        self.load_k(ks, there, place)  # Q's place is free later, if a tile came before
        self.load_q(qs, place, way)
        qs, ks = qs.next(), ks.next()
        for _ in nv.range(steps.count - 1, unroll=False):
            key = key - self.config.tile_n
            following = self.where(place, way, key)
            self.load_k(ks, following, place)
            self.load_v(vs, there, place)
            ks, vs, there = ks.next(), vs.next(), following
        self.load_v(vs, there, place)
        return qs, ks, vs.next()

    def where(self, place: Place, way: Sequence, key: Any) -> list[tuple[Any, Any]]:
        """Where each box of the tile of keys from ``key`` on lies: batch or page, and row."""
        return [self._ways.place(way, place.batch, key + i) for i in range(0, self.config.tile_n, self._box)]

    def load_q(self, state: nv.PipelineState, place: Place, way: Sequence) -> None:
        """Load the tile of queries."""
        at = way.q_batch, way.q_first + place.first, place.kv_head, place.shared, 0
        self._q.load(self.Q[state.stage], self.q_ring.acquire(state), at)

    def load_k(self, state: nv.PipelineState, there: list[tuple[Any, Any]], place: Place) -> None:
        """Load a tile of K, whose boxes lie ``there``."""
        self._boxes(self._k, self.K[state.stage], self.k_ring.acquire(state), there, place)

    def load_v(self, state: nv.PipelineState, there: list[tuple[Any, Any]], place: Place) -> None:
        """Load a tile of V."""
        self._boxes(self._v, self.V[state.stage], self.v_ring.acquire(state), there, place)

    def _boxes(self, tma: nv.TMA, tile: nv.Tile, full: Any, there: list[tuple[Any, Any]], place: Place) -> None:
        for i, (batch, row) in enumerate(there):
            part = tile.rows(i * self._box, self._box) if self._box < self.config.tile_n else tile
            tma.load(part, full, (batch, row, place.kv_head, 0))

    def clear(self, tile: nv.Tile, keys: Any, me: Any, threads: int) -> None:
        """Zero what a tile of V holds beyond the sequence's ``keys``: whatever lies there, zero times it is to be zero.
        By ``threads`` threads in warpgroups, this one is number ``me``, which meet."""
        rows, cols = tile.shape
        wide = 16 // self.config.itemsize
        units = cols // wide
        if keys < rows:
            zeros = nv.vector([dtypes.element(self.dtype)(0.0)] * wide)
            (thread,) = opaque(nv.warpgroup_thread())  # found anew: a register less during the loads
            for unit in nv.range(nv.max(keys, 0) * units + me * 128 + thread, rows * units, threads):
                tile.store_vector(zeros, (unit // units, unit % units * wide))
            nv.fence_proxy_async()
            nv.named_barrier_sync(CLEARED, threads)
