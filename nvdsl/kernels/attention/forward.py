"""Attention forward: one producer warp, and one to three consumer warpgroups of 64 rows each.

A step of a consumer takes a tile of keys. It issues the scores of this tile, S = Q K^T, and then the last step's
O += P V; the softmax of S runs while that product is in flight. The consumers may take turns at issuing (ping-pong):
one multiplies while the other computes exponentials (Shah et al., "FlashAttention-3", arXiv 2407.08608).
"""

from __future__ import annotations

import math
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention import results, sequences
from nvdsl.kernels.attention.config import LARGE, Config
from nvdsl.kernels.attention.load import Loads
from nvdsl.kernels.attention.scores import LOG2_E, Rows, ScoreKind, Scores
from nvdsl.kernels.attention.sequences import Sequences
from nvdsl.kernels.attention.tiles import Rounds, Sight, Tiles
from nvdsl.kernels.blocks.clamped_index import opaque

Queries = nv.Shaped[nv.Array, "q_batch", "queries", "kv_heads", "group", ...]
Keys = nv.Shaped[nv.Array, "k_batch", "keys", "kv_heads", ...]
Logarithms = nv.Shaped[nv.Array, "parts", "q_batch", "heads", "queries"]
Parts = nv.Shaped[nv.Array, "parts", "q_batch", "queries", "kv_heads", "group", ...]
Bias = nv.Shaped[nv.Array, "bias_batch", "bias_heads", "bias_queries", "bias_keys"]
AS_THEY_ARE = ScoreKind()


@nv.jit
def attention(
    q: Queries,
    k: Keys,
    v: Keys,
    o: Queries | None,
    parts: Parts | None,
    lse: Logarithms | None,
    scale: float,
    left: int,
    right: int,
    splits: int,
    softcap: float,
    q_starts: sequences.Starts | None,
    k_starts: sequences.KeyStarts | None,
    used: sequences.Lengths | None,
    table: sequences.Pages | None,
    bias: Bias | None,
    *operands: Any,
    config: Config,
    bounded: tuple[bool, bool],
    scores: ScoreKind = AS_THEY_ARE,
) -> None:
    """``o = softmax(scale * q k^T) v``, and ``lse``: the natural logarithms of the softmax's sums.

    q: (batch, queries, heads of keys, heads that share one, size), o the same with the size of v; k, v: (batch, keys,
    heads of keys, size), f16 or bf16, in strides that TMA reads. For packed and paged sequences see `Sequences`, for
    ``softcap``, ``bias`` and ``operands`` `Scores`. ``bounded``: whether a query sees ``left`` keys before, and
    ``right`` behind the one that it stands at (see `Sight`), or all. A query that sees nothing gets zeros, and
    -infinity.

    In place of ``o`` there may be ``parts``, f32, of ``splits`` parts of the keys each: what `combine` adds up. ``lse``
    is (parts, batch, heads, queries), f32; parts is 1 beside ``o``.
    """
    (_, _, kv_heads, group, _), (d, dv) = q.shape, config.sizes
    tile_m, tile_n, consumers, pack = 64 * config.consumers, config.tile_n, config.consumers, config.pack
    ways = Sequences(q, k, q_starts, k_starts, used, table)
    tiles = Tiles(
        ways, kv_heads, group, tile_m // pack, pack, (d + dv) * q.dtype.bytes, bounded[1],
        None if parts is None else splits,
    )  # fmt: skip
    blocks = nv.min(tiles.count, config.blocks) if config.blocks else tiles.count
    counter = nv.zeros(1, nv.i32) if config.queue else None
    loads = Loads(q, k, v, config, ways)
    o_tma = None
    if o is not None and not ways.packed:
        o_tma = nv.TMA(o, tile=(1, 64 // pack, 1, pack, dv), swizzle=config.swizzle(dv))

    @nv.kernel(grid=blocks, block=128 * (1 + consumers))
    def attention_forward() -> None:
        Q, K, V = loads.allocate()
        apart = d != dv or config.q_registers  # results have shared memory of their own
        staged = Q if not apart or o is None else nv.smem((1, tile_m, dv), o.dtype, swizzle=config.swizzle(dv))
        q_ring, k_ring, v_ring = loads.q_ring, loads.k_ring, loads.v_ring
        if counter is not None:
            rounds: Any = nv.TileQueue(counter, tiles.count, readers=4 * consumers, sync=False)
        else:
            rounds = Rounds(nv.block_id.x, tiles.count, blocks)
        nv.sync_threads()
        turns = nv.Turns(consumers, barrier=1 + consumers) if config.pingpong else None

        def at(tile: Any, whole_warp: bool = True) -> Any:
            """Of tile number ``tile``: its place, the sequence, what its queries see, the tiles of keys."""
            place = tiles.place(tile, whole_warp)
            way = ways.of(place.batch, whole_warp)
            sight = Sight(way.queries, way.keys, left if bounded[0] else None, right if bounded[1] else None)
            parted = {} if parts is None else {"split": place.split, "splits": splits}
            return place, way, sight, sight.steps(place.first, tiles.positions, tile_n, **parted)

        def produce() -> None:
            """Load Q of each tile, and K and V of the tiles of keys, from the last to the first."""
            states = loads.begin()
            work = rounds.begin()
            if config.blocks:
                while work.valid:
                    following = rounds.draw(work)
                    place, way, _, steps = at(work.tile, False)
                    states = loads.load(states, place, way, steps)
                    work = following
            else:
                place, way, _, steps = at(work.tile, False)
                if not ways.packed or place.first < way.queries:
                    loads.load(states, place, way, steps)

        def consume(me: Any) -> None:
            lane = nv.lane_id()
            scored = Scores(scores, scale, softcap, bias, operands)
            factor = scored.factor

            def step(acc: Any, p: Any, m: Any, total: Any, ks: Any, vs: Any, tile_q: Any, rows: Any, key: Any,
                     masked: bool) -> Any:  # fmt: skip
                """A tile of keys, of which the first one is ``key``. ``masked``: some are not to be seen. ``p``: of the
                step before, ``m``, ``total``: maxima and sums of the rows so far."""
                k_ring.wait(ks)
                if turns is not None:
                    turns.wait(me)
                s = nv.accumulator(64, tile_n)
                s += tile_q @ K[ks.stage].T
                acc += p @ V[vs.stage]
                if turns is not None:
                    turns.pass_on(me)
                nv.wgmma_wait(1)
                k_ring.release(ks, lane == 0)
                s = scored.of(s, rows, key, masked)
                grown = nv.maximum(m, s.max(axis=1))
                needed = nv.vote_any((grown - m) * factor > config.rescale_at)
                grown = nv.where(needed, grown, m)
                base = (nv.where(grown == -math.inf, 0.0, grown) if masked or scores.told else grown) * factor
                scaled = nv.math.exp2_approx(m * factor - base)
                weights = nv.math.exp2_approx(s * factor - base[:, None])
                total = total * scaled + weights.sum(axis=1, partial=True)
                nv.sched_barrier(total)
                v_ring.wait(vs.next())
                nv.wgmma_wait(0)
                v_ring.release(vs, lane == 0)
                if needed:
                    acc = acc * scaled[:, None]
                return acc, weights.to(v.dtype), grown, total, ks.next(), vs.next()

            def lazy_step(
                acc: Any, p: Any, m: Any, total: Any, ks: Any, vs: Any, tile_q: Any, rows: Any, key: Any
            ) -> Any:
                """A tile of keys that are all seen: the maxima of before are subtracted, unless sums grow large."""
                k_ring.wait(ks)
                if turns is not None:
                    turns.wait(me)
                s = nv.accumulator(64, tile_n)
                s += tile_q @ K[ks.stage].T
                acc += p @ V[vs.stage]
                if turns is not None:
                    turns.pass_on(me)
                nv.wgmma_wait(1)
                s = scored.of(s, rows, key, False)
                base = m * factor  # -infinity gives infinite weights, which are large
                weights = nv.math.exp2_approx(s * factor - base[:, None])
                part = weights.sum(axis=1, partial=True)
                nv.sched_barrier(part)
                large = nv.named_barrier_any(1 + me, 128, ~(sum(part.of_this_thread()) < LARGE))
                v_ring.wait(vs.next())
                nv.wgmma_wait(0)
                v_ring.release(vs, lane == 0)
                p = weights.to(v.dtype)
                before = total
                total = before + part
                if nv.vote_any(large):  # ptxas knows then that a warp's lanes go the same way
                    s = nv.accumulator(64, tile_n)
                    s += tile_q @ K[ks.stage].T
                    nv.wgmma_wait(0)
                    s = scored.of(s, rows, key, False)
                    grown = nv.maximum(m, s.max(axis=1))
                    base = nv.where(grown == -math.inf, 0.0, grown) * factor
                    scaled = nv.math.exp2_approx(m * factor - base)
                    weights = nv.math.exp2_approx(s * factor - base[:, None])
                    p, total = weights.to(v.dtype), before * scaled + weights.sum(axis=1, partial=True)
                    acc, m = acc * scaled[:, None], grown
                k_ring.release(ks, lane == 0)
                return acc, p, m, total, ks.next(), vs.next()

            def attend(tile: Any, states: Any) -> Any:
                """All keys that a tile of queries sees."""
                qs, ks, vs = states
                place, way, sight, steps = at(tile)
                rows = Rows(place, place.first + me * (64 // pack), group, pack)
                rows.see(sight, None if parts is None else steps.end)
                (key,) = opaque(steps.top * tile_n)  # LLVM would keep the mask of the first tile for the next one

                q_ring.wait(qs)
                tile_q: Any = Q[qs.stage].rows(me * 64, 64)
                if config.q_registers:
                    tile_q = nv.fragment(tile_q).operand()
                    nv.sync_warp()
                    q_ring.release(qs, lane == 0)
                k_ring.wait(ks)
                s = nv.accumulator(64, tile_n)
                s += tile_q @ K[ks.stage].T
                nv.wgmma_wait(0)
                k_ring.release(ks, lane == 0)
                ks = ks.next()
                s = scored.of(s, rows, key, True)
                m = s.max(axis=1)
                base = nv.where(m == -math.inf, 0.0, m) * factor
                weights = nv.math.exp2_approx(s * factor - base[:, None])
                p, total = weights.to(v.dtype), weights.sum(axis=1, partial=True)
                acc = nv.accumulator(64, dv)
                v_ring.wait(vs)
                if ways.ragged:
                    loads.clear(V[vs.stage], way.keys - key, me)

                if bounded[1]:  # a loop of its own: an `if` would take the rings out of uniform registers
                    for _ in nv.range(steps.masked - 1, unroll=False):
                        key = key - tile_n
                        acc, p, m, total, ks, vs = step(acc, p, m, total, ks, vs, tile_q, rows, key, True)
                for _ in nv.range(steps.count - steps.masked - steps.masked_last, unroll=False):
                    if scores.told:
                        key = key - tile_n
                    if config.lazy:
                        acc, p, m, total, ks, vs = lazy_step(acc, p, m, total, ks, vs, tile_q, rows, key)
                    else:
                        acc, p, m, total, ks, vs = step(acc, p, m, total, ks, vs, tile_q, rows, key, False)
                if bounded[0]:
                    key = (steps.top - steps.count + 1 + steps.masked_last) * tile_n
                    for _ in nv.range(steps.masked_last, unroll=False):
                        key = key - tile_n
                        acc, p, m, total, ks, vs = step(acc, p, m, total, ks, vs, tile_q, rows, key, True)
                acc += p @ V[vs.stage]
                whole = total.total()
                nothing = whole == 0.0
                inverse = nv.math.rcp_approx(whole)
                nv.wgmma_wait(0)
                v_ring.release(vs, lane == 0)
                out = nv.where(nothing[:, None], 0.0, acc * inverse[:, None])

                # Found anew, so that no registers hold it during the loops.
                tile, my = opaque(tile, me)
                place, way, _, _ = at(tile)
                query = place.first + my * (64 // pack)
                rows = Rows(place, query, group, pack)
                part = () if parts is None else (place.split,)

                def placed(row: Any) -> Any:
                    _, at = rows.of(row)
                    inside = (at < way.queries) & (place.shared + row % pack < group)
                    return (*part, way.q_batch, way.q_first + at, place.kv_head, place.shared + row % pack), inside

                if parts is not None:
                    results.store_sums(out, parts, placed)
                else:
                    tile_o = staged[0 if apart else qs.stage].rows(my * 64, 64)
                    if o_tma is not None and apart:  # the tile of before is being stored, maybe
                        nv.bulk_wait_group(0, read=True)
                        nv.named_barrier_sync(1 + me, 128)
                    out.store(tile_o)  # Q's rows of this warpgroup have been read
                    nv.fence_proxy_async()
                    if o_tma is None and o is not None:
                        results.store_rows(tile_o, o, placed)
                    elif o_tma is not None:
                        nv.named_barrier_sync(1 + me, 128)
                        if nv.warpgroup_thread() == 0:
                            o_tma.store(tile_o, (place.batch, query, place.kv_head, place.shared, 0))
                            nv.bulk_commit_group()
                if lse is not None:
                    logs = m * scored.unit + nv.math.log2_approx(whole) * (1 / LOG2_E)
                    for row, x in logs.elements():
                        (*_, at_query, _, shared), inside = placed(row)
                        where = place.split, way.q_batch, place.kv_head * group + shared, at_query
                        lse.store(where, x, predicate=inside & (lane % 4 == 0))
                if not apart and o_tma is not None:
                    nv.bulk_wait_group(0, read=True)
                if not config.q_registers:
                    q_ring.release(qs, lane == 0)
                return qs.next(), ks, vs.next()

            if turns is not None:
                turns.begin(me)
            work, states = rounds.begin(), loads.states()
            if config.blocks:
                while work.valid:
                    states = attend(work.tile, states)
                    work = rounds.next(work)
            else:
                place, way, _, _ = at(work.tile)
                if not ways.packed or place.first < way.queries:
                    attend(work.tile, states)
            if apart and o_tma is not None:
                nv.bulk_wait_group(0, read=True)
            if turns is not None:
                turns.end(me)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(config.registers[0])
            if nv.warpgroup_thread() == 0:
                produce()
        else:
            nv.setmaxnreg_inc(config.registers[1])
            consume(nv.warpgroup_id() - 1)

    attention_forward()
