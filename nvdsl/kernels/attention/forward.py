"""Attention forward: one producer warp, and one to three consumer warpgroups of 64 rows each.

A step of a consumer takes a tile of keys. It issues the scores of this tile, S = Q K^T, and then the last step's
O += P V; the softmax of S runs while that product is in flight. The consumers may take turns at issuing (ping-pong):
one multiplies while the other computes exponentials (Shah et al., "FlashAttention-3", arXiv 2407.08608).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention import sequences
from nvdsl.kernels.attention.config import Config
from nvdsl.kernels.attention.load import Loads
from nvdsl.kernels.attention.online import Online
from nvdsl.kernels.attention.query_rows import QueryRows
from nvdsl.kernels.attention.results import Results
from nvdsl.kernels.attention.scores import Rows, Scales, ScoreKind, Scores
from nvdsl.kernels.attention.sequences import Sequences
from nvdsl.kernels.attention.tiles import Rounds, Sight, Tiles
from nvdsl.kernels.attention.turned import TurnedLoads
from nvdsl.kernels.blocks.clamped_index import opaque
from nvdsl.ops.order import recomputing

Queries = nv.Shaped[nv.Array, "q_batch", "queries", "kv_heads", "group", ...]
Keys = nv.Shaped[nv.Array, "k_batch", "keys", "kv_heads", ...]
Logarithms = nv.Shaped[nv.Array, "parts", "q_batch", "heads", "queries"]
Parts = nv.Shaped[nv.Array, "parts", "q_batch", "queries", "kv_heads", "group", ...]
Bias = nv.Shaped[nv.Array, "bias_batch", "bias_heads", "bias_queries", "bias_keys"]
OfQueries = nv.Shaped[nv.Array, "q_scale_batch", "q_scale_heads"]
OfKeys = nv.Shaped[nv.Array, "k_scale_batch", "k_scale_heads"]
OfValues = nv.Shaped[nv.Array, "v_scale_batch", "v_scale_heads"]
Changes = tuple[tuple[str, Any], ...]
"""Fields of a `Config`, and other values for them."""
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
    new: int,
    q_starts: sequences.Starts | None,
    k_starts: sequences.KeyStarts | None,
    used: sequences.Lengths | None,
    table: sequences.Pages | None,
    bias: Bias | None,
    q_scale: OfQueries | None,
    k_scale: OfKeys | None,
    v_scale: OfValues | None,
    *operands: Any,
    config: Config,
    bounded: tuple[bool, bool],
    scores: ScoreKind = AS_THEY_ARE,
    changes: Changes = (),
) -> None:
    """``o = softmax(scale * q k^T) v``, and ``lse``: the natural logarithms of the softmax's sums.

    q: (batch, queries, heads of keys, heads that share one, size), o the same with the size of v; k, v: (batch, keys,
    heads of keys, size), f16 or bf16, in strides that TMA reads; or all of e4m3, with the scales of `Scales`. For
    packed and paged sequences see `Sequences`, for ``softcap``, ``bias`` and ``operands`` `Scores`. ``bounded``:
    whether a query sees ``left`` keys before, and ``right`` behind the one that it stands at (see `Sight`), or all. A
    query that sees nothing gets zeros, and -infinity.

    In place of ``o`` there may be ``parts``, f32, of ``splits`` parts of the keys each: what `combine` adds up. ``lse``
    is (parts, batch, heads, queries), f32; parts is 1 beside ``o``. ``new``: 1 where ``o`` is
    a new array, whose rows of no sequence become zeros. ``changes``: to ``config``, as `tuned` finds them.
    """
    config = replace(config, **dict(changes))
    (_, _, kv_heads, group, _), (d, dv) = q.shape, config.sizes
    tile_n, consumers, pack = config.tile_n, config.consumers, config.pack
    tile_m = 64 * consumers
    ways = Sequences(q, k, q_starts, k_starts, used, table)
    shares: Any = config.cluster if config.cluster > 1 else None if parts is None else splits  # of the keys
    tiles = Tiles(
        ways, kv_heads, group, tile_m // pack, pack, (d + dv) * q.dtype.bytes, bounded[1],
        shares,
    )  # fmt: skip
    skips = ways.packed and config.cluster == 1  # tiles without queries; the blocks of a cluster meet, and don't
    blocks = nv.min(tiles.count, config.blocks) if config.blocks else tiles.count
    counter = nv.zeros(1, nv.i32, restored=True) if config.queue else None
    loads = (Loads if config.itemsize == 2 else TurnedLoads)(q, k, v, config, ways)
    scales = Scales(q_scale, k_scale, v_scale)
    results = Results(o, parts, lse, config, ways, group)

    @nv.kernel(
        grid=blocks, block=128 * (1 + consumers), cluster=config.cluster, non_portable=config.cluster > 8,
        blocks_per_sm=config.blocks_per_sm, programmatic=parts is not None,
    )  # fmt: skip
    def attention_forward() -> None:
        loads.allocate()
        results.allocate(loads)
        q_ring, v_ring = loads.q_ring, loads.v_ring
        if counter is not None:
            readers = 4 * consumers + (4 if loads.together else 0)
            rounds: Any = nv.TileQueue(counter, tiles.count, readers=readers, sync=False)
        else:
            rounds = Rounds(nv.block_id.x, tiles.count, blocks)
        nv.sync_threads()
        nv.griddep_wait()
        nv.griddep_launch_dependents()
        turns = nv.Turns(consumers, barrier=1 + consumers) if config.pingpong else None

        def at(tile: Any, whole_warp: bool = True) -> Any:
            """Of tile number ``tile``: its place, the sequence, what its queries see, the tiles of keys."""
            place = tiles.place(tile, whole_warp)
            way = ways.of(place.batch, whole_warp)
            sight = Sight(way.queries, way.keys, left if bounded[0] else None, right if bounded[1] else None)
            return place, way, sight, sight.steps(place.first, tiles.positions, tile_n, place.split, tiles.splits)

        def produce() -> None:
            """Load Q of each tile, and K and V of the tiles of keys, from the last to the first."""
            states = loads.begin()
            work = rounds.begin()
            if config.blocks:
                while work.valid:
                    if not loads.together:
                        following = rounds.draw(work)
                    elif nv.warpgroup_thread() == 0:
                        _ = rounds.draw(work)  # all find it by `next`
                    place, way, _, steps = at(work.tile, loads.together)
                    states = loads.load(states, place, way, steps)
                    work = rounds.next(work) if loads.together else following
            else:
                place, way, _, steps = at(work.tile, loads.together or ways.packed)
                if not skips or place.first < way.queries:
                    if loads.together or nv.lane_id() == 0:
                        loads.load(states, place, way, steps)

        def consume(me: Any) -> None:
            lane = nv.lane_id()

            def attend(tile: Any, states: Any) -> Any:
                """All keys that a tile of queries sees."""
                qs, ks, vs = states
                place, way, sight, steps = at(tile)
                (my,) = opaque(me)  # found anew for each tile, so that no registers hold its place during the loops
                rows = Rows(place, place.first + my * (64 // pack), group, pack)
                factor = scales.of_scores(place)
                scored = Scores(scores, scale if factor is None else scale * factor, softcap, bias, operands)
                online = Online(config, loads, scored, turns, me)
                rows.see(sight, None if shares is None else steps.end)
                (key,) = opaque(steps.top * tile_n)  # LLVM would keep the mask of the first tile for the next one
                scored.settle(rows, key)

                q_ring.wait(qs)
                mine = QueryRows(loads.Q[qs.stage].rows(me * 64, 64), config.q_columns)
                if config.q_registers:
                    nv.sync_warp()
                    q_ring.release(qs, lane == 0)
                sums = online.first(mine, ks, vs, rows, key)
                v_ring.wait(vs)
                if ways.ragged and not loads.together:
                    loads.clear(loads.V[vs.stage], way.keys - key, me, 128 * consumers)

                sums = online.others(sums, mine, rows, steps, bounded)
                if not config.q_registers and config.o_columns:
                    q_ring.release(qs, lane == 0)
                acc, p, m, total, ks, vs = sums
                acc += p @ loads.values(vs.stage)
                total = total.total()
                inverse = nv.math.rcp_approx(total)
                nv.wgmma_wait(0)
                v_ring.release(vs, lane == 0)

                tile, my = opaque(tile, me)
                place, way, _, _ = at(tile)
                of_values = scales.of_values(place)
                acc = acc if of_values is None else acc * of_values
                with recomputing():  # no addresses of results are kept during the loops
                    results.store(acc, m, total, inverse, scored, place, way, place.first, my, qs.stage)
                if not (config.q_registers or config.o_columns):
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
                if not skips or place.first < way.queries:
                    attend(work.tile, states)
            results.drain()
            if turns is not None:
                turns.end(me)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(config.registers[0])
            if loads.together or (nv.warp_id() == 0 if ways.packed else nv.warpgroup_thread() == 0):
                produce()
            if ways.packed and o is not None:
                if nv.warp_id() == 3:  # which has little to do
                    ways.clear(o, new == 1, lse, nv.block_id.x, nv.grid_dim.x)
            if config.cluster > 1:
                nv.sync_warp()
                results.meet()
        else:
            nv.setmaxnreg_inc(config.registers[1])
            consume(nv.warpgroup_id() - 1)

    attention_forward()
