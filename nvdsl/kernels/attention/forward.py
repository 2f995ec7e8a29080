"""Attention forward: one producer warp, and two or three consumer warpgroups of 64 rows each.

A step of a consumer takes a tile of keys. It issues the scores of this tile, S = Q K^T, and then the last step's
O += P V; the softmax of S runs while that product is in flight. The consumers take turns at issuing (ping-pong): one
multiplies while the other computes exponentials (Shah et al., "FlashAttention-3", arXiv 2407.08608).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.tiles import Tiles

LOG2_E = math.log2(math.e)
SHARED_MEMORY = 227 * 1024


@dataclass(frozen=True)
class Config:
    """``tile_n``: keys of a tile. ``consumers``: warpgroups of 64 rows. ``stages``: tiles of K, and of V, in flight.
    ``blocks``: of a persistent grid; 0: a block for each tile. ``pingpong``: consumers take turns at issuing.
    ``rescale_at``: O is scaled where a row's maximum has grown by more than this, as a logarithm to base 2: until then
    the old one is subtracted, which changes nothing but the scale of P."""

    tile_n: int = 128
    consumers: int = 2
    stages: int = 2
    blocks: int = 0
    pingpong: bool = True
    rescale_at: float = 8.0


def config(head_size: int, causal: bool, blocks: int = 132) -> Config:
    """The configuration for a head size of 64, 128 or 256; ``blocks``: as many as run at the same time."""
    return Config(tile_n=80 if head_size > 128 else 128, blocks=0 if causal else blocks)


@nv.jit
def attention(
    q: nv.Array,
    k: nv.Array,
    v: nv.Array,
    o: nv.Array,
    lse: nv.Array,
    *,
    config: Config,
    causal: bool = False,
    scale: float | None = None,
) -> None:
    """``o = softmax(scale * q k^T) v``, and ``lse``: the logarithms of the softmax's sums.

    q, o: [heads, rows, head size], k, v: [heads or a divisor, keys, head size], f16 or bf16, contiguous; head size 64,
    128 or 256. lse: [heads, rows] f32. ``causal``: row i sees the keys 0 .. i + keys - rows. ``scale``: one over the
    square root of the head size where none is given.
    """
    (heads, rows, head_size), (kv_heads, keys, _) = q.shape, k.shape
    tile_m, tile_n, consumers = 64 * config.consumers, config.tile_n, config.consumers
    nv.require(head_size in (64, 128, 256), f"head size {head_size}", rule="64, 128 or 256")
    as_q = k.shape == v.shape and k.shape[2] == head_size
    nv.require(as_q, f"k {k.shape} and v {v.shape} beside q {q.shape}", rule="[heads, keys, head size]")
    nv.require(o.shape == q.shape and lse.shape == (heads, rows), f"o {o.shape}, lse {lse.shape}", rule="as q has")
    nv.require(not causal or keys >= rows, f"{rows} rows and {keys} keys", rule="each row sees a key")
    nv.require(heads % kv_heads == 0, f"{heads} heads of q, {kv_heads} of k", rule="heads share those of k evenly")
    nv.require(config.stages >= 2, f"stages = {config.stages}", rule="the next V is waited for before the last is free")
    factor = (1 / math.sqrt(head_size) if scale is None else scale) * LOG2_E
    shared, kv_bytes = heads // kv_heads, 2 * keys * head_size * q.dtype.bytes
    tiles = Tiles(heads, shared, rows, keys, tile_m, tile_n, kv_bytes, config.blocks, causal)
    tile_bytes = (tile_m + 2 * config.stages * tile_n) * head_size * q.dtype.bytes + 1024
    q_stages = 2 if tiles.persistent and tile_bytes + tile_m * head_size * q.dtype.bytes <= SHARED_MEMORY else 1

    q_tma = nv.TMA(q, tile=(1, tile_m, head_size), swizzle=128)
    k_tma = nv.TMA(k, tile=(1, tile_n, head_size), swizzle=128)
    v_tma = nv.TMA(v, tile=(1, tile_n, head_size), swizzle=128)
    o_tma = nv.TMA(o, tile=(1, 64, head_size), swizzle=128)

    @nv.kernel(grid=tiles.grid, block=128 * (1 + consumers))
    def kernel() -> None:
        Q = nv.smem((q_stages, tile_m, head_size), q.dtype, swizzle=128)
        K = nv.smem((config.stages, tile_n, head_size), k.dtype, swizzle=128)
        V = nv.smem((config.stages, tile_n, head_size), v.dtype, swizzle=128)
        q_ring = nv.Ring(q_stages, bytes=Q.bytes, consumers=4 * consumers, sync=False)
        k_ring = nv.Ring(config.stages, bytes=K.bytes, consumers=4 * consumers, sync=False)
        v_ring = nv.Ring(config.stages, bytes=V.bytes, consumers=4 * consumers, sync=False)
        nv.sync_threads()
        turns = nv.Turns(consumers, barrier=1 + consumers) if config.pingpong else None
        block = nv.block_id.x

        def produce() -> None:
            """Load Q of each tile, and K and V of the tiles of keys, from the last to the first."""
            qs, ks, vs = q_ring.producer_state(), k_ring.producer_state(), v_ring.producer_state()
            for turn in nv.range(tiles.rounds(block), unroll=False):
                head, row = tiles.place(block, turn)
                n = tiles.seen(row)
                q_tma.load(Q[qs.stage], q_ring.acquire(qs), (head, row, 0))
                k_tma.load(K[ks.stage], k_ring.acquire(ks), (head // shared, (n - 1) * tile_n, 0))
                qs, ks = qs.next(), ks.next()
                for j in nv.range(n - 1, unroll=False):
                    k_tma.load(K[ks.stage], k_ring.acquire(ks), (head // shared, (n - 2 - j) * tile_n, 0))
                    v_tma.load(V[vs.stage], v_ring.acquire(vs), (head // shared, (n - 1 - j) * tile_n, 0))
                    ks, vs = ks.next(), vs.next()
                v_tma.load(V[vs.stage], v_ring.acquire(vs), (head // shared, 0, 0))
                vs = vs.next()

        def consume(me: Any) -> None:
            leader = nv.lane_id() == 0
            qs, ks, vs = q_ring.consumer_state(), k_ring.consumer_state(), v_ring.consumer_state()

            def masked(s: Any, row: Any, key: Any) -> Any:
                """Scores of a tile of keys from ``key`` on: -infinity where they are not to be seen."""
                if keys % tile_n:
                    s = nv.where(s.cols + key < keys, s, -math.inf)
                if causal:
                    s = nv.where(s.rows + (row + tiles.offset) >= s.cols + key, s, -math.inf)
                return s

            def step(acc: Any, p: Any, m: Any, total: Any, ks: Any, vs: Any, tile_q: Any, row: Any, key: Any) -> Any:
                """A tile of keys. ``key``: its first one, where some are masked; else None. ``p``: of the step before,
                ``m``, ``total``: maxima and sums of the rows so far."""
                k_ring.wait(ks)
                if turns is not None:
                    turns.wait(me)
                s = nv.accumulator(64, tile_n)
                s += tile_q @ K[ks.stage].T
                acc += p @ V[vs.stage]
                if turns is not None:
                    turns.pass_on(me)
                nv.wgmma_wait(1)
                k_ring.release(ks, leader)
                if key is not None:
                    s = masked(s, row, key)
                grown = nv.maximum(m, s.max(axis=1))
                needed = nv.vote_any((grown - m) * factor > config.rescale_at)
                grown = nv.where(needed, grown, m)
                base = (grown if key is None else nv.where(grown == -math.inf, 0.0, grown)) * factor
                scaled = nv.math.exp2_approx(m * factor - base)
                weights = nv.math.exp2_approx(s * factor - base[:, None])
                total = total * scaled + weights.sum(axis=1, partial=True)
                v_ring.wait(vs.next())
                nv.wgmma_wait(0)
                v_ring.release(vs, leader)
                if needed:
                    acc = acc * scaled[:, None]
                return acc, weights.to(q.dtype), grown, total, ks.next(), vs.next()

            if turns is not None:
                turns.begin(me)
            for turn in nv.range(tiles.rounds(block), unroll=False):
                head, first = tiles.place(block, turn)
                row, n = first + me * 64, tiles.seen(first)
                q_ring.wait(qs)
                tile_q = Q[qs.stage].rows(me * 64, 64)
                k_ring.wait(ks)
                s = nv.accumulator(64, tile_n)
                s += tile_q @ K[ks.stage].T
                nv.wgmma_wait(0)
                k_ring.release(ks, leader)
                ks = ks.next()
                s = masked(s, row, (n - 1) * tile_n)
                m = s.max(axis=1)
                base = (nv.where(m == -math.inf, 0.0, m) if causal else m) * factor
                weights = nv.math.exp2_approx(s * factor - base[:, None])
                p, total = weights.to(q.dtype), weights.sum(axis=1, partial=True)
                acc = nv.accumulator(64, head_size)
                v_ring.wait(vs)

                last = nv.min(n, tiles.masked)
                if tiles.masked > 1:  # a loop of its own: an `if` would take the rings out of uniform registers
                    for j in nv.range(1, last, unroll=False):
                        acc, p, m, total, ks, vs = step(
                            acc, p, m, total, ks, vs, tile_q, row, (n - 1 - j) * tile_n)  # fmt: skip
                for _ in nv.range(n - last, unroll=False):
                    acc, p, m, total, ks, vs = step(acc, p, m, total, ks, vs, tile_q, row, None)
                acc += p @ V[vs.stage]
                whole = total.total()
                inverse = nv.where(whole == 0.0, 0.0, nv.math.rcp_approx(whole))
                nv.wgmma_wait(0)
                v_ring.release(vs, leader)
                vs = vs.next()

                (acc * inverse[:, None]).store(tile_q)  # Q's rows of this warpgroup have been read
                nv.fence_proxy_async()
                nv.named_barrier_sync(1 + me, 128)
                if nv.warpgroup_thread() == 0:
                    o_tma.store(tile_q, (head, row, 0))
                    nv.bulk_commit_group()
                logs = m * (factor / LOG2_E) + nv.math.log2_approx(whole) * (1 / LOG2_E)
                logs.store(lse, (head, row), clip=True)
                nv.bulk_wait_group(0, read=True)
                q_ring.release(qs, leader)
                qs = qs.next()
            if turns is not None:
                turns.end(me)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(24 if consumers == 2 else 32)
            if nv.warpgroup_thread() == 0:
                produce()
        else:
            nv.setmaxnreg_inc(240 if consumers == 2 else 160)
            consume(nv.warpgroup_id() - 1)

    kernel()
