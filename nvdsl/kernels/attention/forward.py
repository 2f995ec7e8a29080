"""Attention forward: one producer warp, and one to three consumer warpgroups of 64 rows each.

A step of a consumer takes a tile of keys. It issues the scores of this tile, S = Q K^T, and then the last step's
O += P V; the softmax of S runs while that product is in flight. The consumers may take turns at issuing (ping-pong):
one multiplies while the other computes exponentials (Shah et al., "FlashAttention-3", arXiv 2407.08608).
"""

from __future__ import annotations

import math
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.config import Config
from nvdsl.kernels.attention.tiles import Rounds, Sight, Tiles
from nvdsl.kernels.blocks.clamped_index import opaque

LOG2_E = math.log2(math.e)

Queries = nv.Shaped[nv.Array, "batch", "queries", "kv_heads", "group", ...]
Keys = nv.Shaped[nv.Array, "batch", "keys", "kv_heads", ...]
Logarithms = nv.Shaped[nv.Array, "batch", "heads", "queries"]


@nv.jit
def attention(
    q: Queries,
    k: Keys,
    v: Keys,
    o: Queries,
    lse: Logarithms | None,
    scale: float,
    left: int,
    right: int,
    *,
    config: Config,
    bounded: tuple[bool, bool],
) -> None:
    """``o = softmax(scale * q k^T) v``, and ``lse``: the natural logarithms of the softmax's sums.

    q: (batch, queries, heads of keys, heads that share one, size), o the same with the size of v; k, v: (batch, keys,
    heads of keys, size), f16 or bf16, in strides that TMA reads; lse: (batch, heads, queries) f32. ``bounded``: whether
    a query sees ``left`` keys before, and ``right`` behind the one that it stands at (see `Sight`), or all. A query
    that sees nothing gets zeros, and -infinity.
    """
    (batches, queries, kv_heads, group, _), keys = q.shape, k.shape[1]
    d, dv = config.sizes
    tile_m, tile_n, consumers, pack = 64 * config.consumers, config.tile_n, config.consumers, config.pack
    key_bytes = (d + dv) * q.dtype.bytes
    sight = Sight(queries, keys, left if bounded[0] else None, right if bounded[1] else None)
    cluster, positions = config.cluster, tile_m // pack
    tiles = Tiles(batches, kv_heads, group, queries, keys, positions * cluster, pack, key_bytes, bounded[1])
    clusters = nv.min(tiles.count, config.blocks // cluster) if config.blocks else tiles.count
    counter = nv.zeros(1, nv.i32) if config.queue else None

    q_tma = nv.TMA(q, tile=(1, tile_m // pack, 1, pack, d), swizzle=config.swizzle(d))
    k_tma = nv.TMA(k, tile=(1, tile_n // cluster, 1, d), swizzle=config.swizzle(d))
    v_tma = nv.TMA(v, tile=(1, tile_n // cluster, 1, dv), swizzle=config.swizzle(dv))
    o_tma = nv.TMA(o, tile=(1, 64 // pack, 1, pack, dv), swizzle=config.swizzle(dv))

    @nv.kernel(grid=clusters * cluster, block=128 * (1 + consumers), cluster=cluster)
    def attention_forward() -> None:
        Q = nv.smem((config.q_stages, tile_m, d), q.dtype, swizzle=config.swizzle(d))
        K = nv.smem((config.stages, tile_n, d), k.dtype, swizzle=config.swizzle(d))
        V = nv.smem((config.stages, tile_n, dv), v.dtype, swizzle=config.swizzle(dv))
        results = Q if d == dv else nv.smem((1, tile_m, dv), o.dtype, swizzle=config.swizzle(dv))
        q_ring = nv.Ring(config.q_stages, bytes=Q.bytes, consumers=4 * consumers, sync=False)
        k_ring = nv.Ring(config.stages, bytes=K.bytes, consumers=4 * consumers * cluster, sync=False)
        v_ring = nv.Ring(config.stages, bytes=V.bytes, consumers=4 * consumers * cluster, sync=False)
        if counter is not None:
            rounds: Any = nv.TileQueue(counter, tiles.count, readers=4 * consumers, sync=False)
        else:
            rounds = Rounds(nv.block_id.x // cluster, tiles.count, clusters)
        rank = nv.cluster_rank() if cluster > 1 else 0
        nv.cluster_sync() if cluster > 1 else nv.sync_threads()
        turns = nv.Turns(consumers, barrier=1 + consumers) if config.pingpong else None

        def produce() -> None:
            """Load Q of each tile, and K and V of the tiles of keys, from the last to the first."""
            qs, ks, vs = q_ring.producer_state(), k_ring.producer_state(), v_ring.producer_state()
            part = rank * (tile_n // cluster)  # this block's rows of a tile of keys

            def load(tma: Any, tile: Any, full: Any, batch: Any, key: Any, kv_head: Any) -> None:
                rows = tile.rows(part, tile_n // cluster) if cluster > 1 else tile
                mask = (1 << cluster) - 1 if cluster > 1 else None
                tma.load(rows, full, (batch, key + part, kv_head, 0), multicast_mask=mask)

            def load_all(tile: Any, qs: Any, ks: Any, vs: Any) -> Any:
                batch, kv_head, shared, first = tiles.place(tile)
                steps = sight.steps(first, tiles.positions, tile_n)
                key = steps.top * tile_n
                q_tma.load(Q[qs.stage], q_ring.acquire(qs), (batch, first + rank * positions, kv_head, shared, 0))
                load(k_tma, K[ks.stage], k_ring.acquire(ks), batch, key, kv_head)
                qs, ks = qs.next(), ks.next()
                for _ in nv.range(steps.count - 1, unroll=False):
                    load(k_tma, K[ks.stage], k_ring.acquire(ks), batch, key - tile_n, kv_head)
                    load(v_tma, V[vs.stage], v_ring.acquire(vs), batch, key, kv_head)
                    ks, vs, key = ks.next(), vs.next(), key - tile_n
                load(v_tma, V[vs.stage], v_ring.acquire(vs), batch, key, kv_head)
                return qs, ks, vs.next()

            work = rounds.begin()
            if config.blocks:
                while work.valid:
                    following = rounds.draw(work)
                    qs, ks, vs = load_all(work.tile, qs, ks, vs)
                    work = following
            else:
                load_all(work.tile, qs, ks, vs)

        def consume(me: Any) -> None:
            lane = nv.lane_id()
            qs, ks, vs = q_ring.consumer_state(), k_ring.consumer_state(), v_ring.consumer_state()
            factor = scale * LOG2_E

            def release(ring: Any, state: Any) -> None:
                """Tell the producers that write into the slot, here and in the cluster, that this warp has read it."""
                if cluster > 1:
                    ring.release(state, lane < cluster, rank=lane)
                else:
                    ring.release(state, lane == 0)

            def step(acc: Any, p: Any, m: Any, total: Any, ks: Any, vs: Any, tile_q: Any, bounds: Any, key: Any) -> Any:
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
                release(k_ring, ks)
                if key is not None:
                    s = masked(s, bounds, key)
                grown = nv.maximum(m, s.max(axis=1))
                needed = nv.vote_any((grown - m) * factor > config.rescale_at)
                grown = nv.where(needed, grown, m)
                base = (grown if key is None else nv.where(grown == -math.inf, 0.0, grown)) * factor
                scaled = nv.math.exp2_approx(m * factor - base)
                weights = nv.math.exp2_approx(s * factor - base[:, None])
                total = total * scaled + weights.sum(axis=1, partial=True)
                nv.sched_barrier(total)
                v_ring.wait(vs.next())
                nv.wgmma_wait(0)
                release(v_ring, vs)
                if needed:
                    acc = acc * scaled[:, None]
                return acc, weights.to(v.dtype), grown, total, ks.next(), vs.next()

            def attend(tile: Any, qs: Any, ks: Any, vs: Any) -> Any:
                """All keys that a tile of queries sees."""
                batch, kv_head, shared, first = tiles.place(tile)
                steps = sight.steps(first, tiles.positions, tile_n)
                key = steps.top * tile_n
                query = first + rank * positions + me * (64 // pack)
                at = nv.accumulator(64, tile_n).rows
                at = at // pack + query if pack > 1 else at + query
                bounds = sight.begin(at) if bounded[0] else None, sight.end(at)

                q_ring.wait(qs)
                tile_q = Q[qs.stage].rows(me * 64, 64)
                k_ring.wait(ks)
                s = nv.accumulator(64, tile_n)
                s += tile_q @ K[ks.stage].T
                nv.wgmma_wait(0)
                release(k_ring, ks)
                ks = ks.next()
                s = masked(s, bounds, key)
                m = s.max(axis=1)
                base = nv.where(m == -math.inf, 0.0, m) * factor
                weights = nv.math.exp2_approx(s * factor - base[:, None])
                p, total = weights.to(v.dtype), weights.sum(axis=1, partial=True)
                acc = nv.accumulator(64, dv)
                v_ring.wait(vs)

                if bounded[1]:  # a loop of its own: an `if` would take the rings out of uniform registers
                    for _ in nv.range(steps.masked - 1, unroll=False):
                        key = key - tile_n
                        acc, p, m, total, ks, vs = step(acc, p, m, total, ks, vs, tile_q, bounds, key)
                for _ in nv.range(steps.count - steps.masked - steps.masked_last, unroll=False):
                    acc, p, m, total, ks, vs = step(acc, p, m, total, ks, vs, tile_q, bounds, None)
                if bounded[0]:
                    key = (steps.top - steps.count + 1 + steps.masked_last) * tile_n
                    for _ in nv.range(steps.masked_last, unroll=False):
                        key = key - tile_n
                        acc, p, m, total, ks, vs = step(acc, p, m, total, ks, vs, tile_q, bounds, key)
                acc += p @ V[vs.stage]
                whole = total.total()
                nothing = whole == 0.0
                inverse = nv.math.rcp_approx(whole)
                nv.wgmma_wait(0)
                release(v_ring, vs)
                vs = vs.next()
                # Found anew, so that no registers hold it during the loops.
                tile, my = opaque(tile, me)
                batch, kv_head, shared, first = tiles.place(tile)
                query = first + rank * positions + my * (64 // pack)
                tile_o = results[qs.stage if d == dv else 0].rows(my * 64, 64)

                out = nv.where(nothing[:, None], 0.0, acc * inverse[:, None])
                if d != dv:  # the tile of before is being stored, maybe
                    nv.bulk_wait_group(0, read=True)
                    nv.named_barrier_sync(1 + me, 128)
                out.store(tile_o)  # Q's rows of this warpgroup have been read
                nv.fence_proxy_async()
                nv.named_barrier_sync(1 + me, 128)
                if nv.warpgroup_thread() == 0:
                    o_tma.store(tile_o, (batch, query, kv_head, shared, 0))
                    nv.bulk_commit_group()
                if lse is not None:
                    logs = m * scale + nv.math.log2_approx(whole) * (1 / LOG2_E)
                    first_lane = lane % 4 == 0
                    for row, x in logs.elements():
                        head, place = kv_head * group + shared + row % pack, query + row // pack
                        there = first_lane & (place < queries) & (shared + row % pack < group)
                        lse.store((batch, head, place), x, predicate=there)
                nv.bulk_wait_group(0, read=True)
                q_ring.release(qs, lane == 0)
                return qs.next(), ks, vs

            if turns is not None:
                turns.begin(me)
            work = rounds.begin()
            if config.blocks:
                while work.valid:
                    qs, ks, vs = attend(work.tile, qs, ks, vs)
                    work = rounds.next(work)
            else:
                attend(work.tile, qs, ks, vs)
            if turns is not None:
                turns.end(me)

        def masked(s: Any, bounds: Any, key: Any) -> Any:
            """Scores of a tile of keys from ``key`` on: -infinity where they are not to be seen."""
            begin, end = bounds
            s = nv.where(s.cols + key < end, s, -math.inf)
            return s if begin is None else nv.where(s.cols + key >= begin, s, -math.inf)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(config.registers[0])
            if nv.warpgroup_thread() == 0:
                produce()
        else:
            nv.setmaxnreg_inc(config.registers[1])
            consume(nv.warpgroup_id() - 1)
        if cluster > 1:  # a block stays while others write into it
            nv.cluster_sync()

    attention_forward()
