"""The producer's side of attention's gradients: K and V of a block, and all Q and dO, on their way to shared memory."""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile, Seeing

CONSUMERS = 2


class GradientLoads:
    """Tensor maps, made in the host function; tiles and rings, made in the kernel by `allocate`.

    Beside each tile of Q lie its rows' logarithms, and behind them the sums of their O dO (``sums``, see
    `gradient_rows.sum_rows`).
    """

    def __init__(
        self, dout: nv.Array, q: nv.Array, k: nv.Array, v: nv.Array, sums: nv.Array, tiles: GradientTiles,
        config: Config,
    ) -> None:  # fmt: skip
        size, value_size = config.sizes
        self._config, self._tiles, self._sums, self._dtype = config, tiles, sums, q.dtype
        self._beside: int = sums.shape[1]
        self._swizzles = config.swizzle(size), config.swizzle(value_size), config.k_swizzle
        of_q, of_v, of_k = self._swizzles
        self._q, self._do = _map(q, config.tile_m, size, of_q), _map(dout, config.tile_m, value_size, of_v)
        self._k, self._v = _map(k, config.tile_n, size, of_k), _map(v, config.tile_n, value_size, of_v)

    def allocate(self) -> None:
        """Shared memory of K, V, Q and dO, and the rings of the last two. The block meets afterwards."""
        config, (size, value_size), dtype = self._config, self._config.sizes, self._dtype
        of_q, of_v, of_k = self._swizzles
        self.K = nv.smem((config.keys, config.tile_n, size), dtype, swizzle=of_k)
        self.V = nv.smem((config.values, config.tile_n, value_size), dtype, swizzle=of_v)
        self.Q = nv.smem((config.stages, config.tile_m, size), dtype, swizzle=of_q)
        self.dO = nv.smem((config.do_stages, config.tile_m, value_size), dtype, swizzle=of_v)
        self.beside = nv.smem(config.stages * self._beside, nv.f32)
        self.k_ring = nv.Ring(config.keys, bytes=self.K.bytes, consumers=CONSUMERS, sync=False)
        self.v_ring = nv.Ring(config.values, bytes=self.V.bytes, consumers=CONSUMERS, sync=False)
        warps, self._row_bytes = 4 * CONSUMERS, 4 * self._beside
        self.q_ring = nv.Ring(config.stages, bytes=self.Q.bytes + self._row_bytes, consumers=warps, sync=False)
        self.do_ring = nv.Ring(config.do_stages, bytes=self.dO.bytes, consumers=warps, sync=False)

    def begin(self) -> tuple[nv.PipelineState, ...]:
        """Where the producer begins: the states of the rings of K, V, Q and dO."""
        return tuple(ring.producer_state() for ring in (self.k_ring, self.v_ring, self.q_ring, self.do_ring))

    def produce(self, at: KeyTile, sight: Seeing, states: Any) -> Any:
        """Load K and V, and Q and dO of the tiles of queries that see these keys. By one thread. Returns the states of
        the rings afterwards."""
        keys, values, state, outs = states
        one = at.sequence
        if sight.any:
            place = one.k_batch, one.k_first + at.key, at.kv_head, 0
            self._k.load(self.K[keys.stage], self.k_ring.acquire(keys), place)
            self._v.load(self.V[values.stage], self.v_ring.acquire(values), place)
            keys, values = keys.next(), values.next()
        number = self._tiles.first(at.number, one, at.head)
        outer, inner = sight.nested
        for i in nv.range(outer, unroll=False):
            for j in nv.range(inner, unroll=False):
                tile, g = sight.nested_step(i, j)
                head = at.head + g
                place = one.q_batch, one.q_first + tile * self._config.tile_m, head, 0
                if self._config.do_first:
                    self._do.load(self.dO[outs.stage], self.do_ring.acquire(outs), place)
                self._queries(state, place, number + g * self._tiles.rows + tile)
                if not self._config.do_first:
                    self._do.load(self.dO[outs.stage], self.do_ring.acquire(outs), place)
                state, outs = state.next(), outs.next()
        return keys, values, state, outs

    def _queries(self, state: nv.PipelineState, place: Any, tile: Any) -> None:
        full, rows = self.q_ring.acquire(state), self._beside
        self._q.load(self.Q[state.stage], full, place)
        beside = self.beside.view((state.stage * rows,), (rows,))
        nv.bulk_load(beside, self._sums.view((tile, 0), (1, rows)), self._row_bytes, full)

    def beside_rows(self, stage: Any) -> list[Any]:
        """Where the logarithms of a tile's rows start in ``beside``, their sums of O dO, and what else there is."""
        return [stage * self._beside + first for first in range(0, self._beside, self._config.tile_m)]


def _map(x: nv.Array, rows: int, size: int, swizzle: int) -> nv.TMA:
    return nv.TMA(x, tile=(1, rows, 1, size), swizzle=swizzle)
