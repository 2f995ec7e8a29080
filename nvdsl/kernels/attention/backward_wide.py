"""Attention backward for heads beyond 192, whose dK and dV of 96 keys would not fit into registers.

A block owns a tile of 64 keys. Each of its two consumer warpgroups computes the scores of 64 rows of a tile of 128, and
adds up half of the columns of dK and dV, for which P and dS go through shared memory. dS is an operand in registers
where dQ = dS K; dQ is added up in f32 in global memory straight from registers, 64 columns at a time.

    dP = dO V      while it runs: P = exp(S - LSE), and P to shared memory
    dV += P dO     while it runs: dS = P (dP - sum), and dS to shared memory
    dK += dS Q
    dQ = dS K      64 columns; while the next ones run, these are added up
    S = Q K        of the next tile of rows, while the last columns are added up, if shared memory has its Q
"""

from __future__ import annotations

import functools
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_config import SLICE
from nvdsl.kernels.attention.gradient_frame import GradientFrame
from nvdsl.kernels.attention.gradient_load import CONSUMERS
from nvdsl.kernels.attention.gradient_scores import SOME, first_columns, moved_up
from nvdsl.kernels.attention.gradient_tiles import KeyTile, Seeing
from nvdsl.ops.order import recomputed, recomputing

WEIGHED, SLOPED, STORED = 1, 8, 4
"""Named barriers: both consumers' P, or dS, are in shared memory; dK and dV are (the first of two). That the other one
has read the P and dS before, a consumer knows by the next dO and Q, whose places are free then."""


def backward_wide(frame: GradientFrame) -> None:
    """For heads of up to 256; their sizes in shared memory are multiples of 64, 128 at least."""
    config, tiles, loads, sums, scoring = frame.config, frame.tiles, frame.loads, frame.sums, frame.scoring
    scores, dk, dv, dtype, parts = scoring.kind, frame.dk, frame.dv, frame.dtype, sums.parts
    tile_m, tile_n, (size, value_size) = config.tile_m, config.tile_n, config.sizes
    producer, consumer = frame.registers
    dk_tma = nv.TMA(dk, tile=(1, tile_n, 1, size // 2), swizzle=config.swizzle(size))
    dv_tma = nv.TMA(dv, tile=(1, tile_n, 1, value_size // 2), swizzle=config.swizzle(value_size))

    early = config.stages > 1  # shared memory has the next tile's Q: dP, and then dV, are computed beside the weights
    at_once = max(  # slices of dQ: beside dK and dV, there are registers for so many
        n for n in (1, 2, 3) if parts.slices % n == 0 and (size + value_size) // 4 + n * SLICE // 2 <= 192
    )

    @nv.kernel(grid=tiles.blocks, block=128 * (1 + CONSUMERS), programmatic=True)
    def kernel() -> None:
        loads.allocate()
        K, V, Q, dO, q_ring, do_ring = loads.K[0], loads.V[0], loads.Q, loads.dO[0], loads.q_ring, loads.do_ring
        P = nv.smem((tile_m, tile_n), dtype, swizzle=2 * SOME if scores.changes else 128)
        dS = nv.smem((tile_m, tile_n), dtype, swizzle=128)
        nv.sync_threads()
        nv.griddep_wait()

        def place(whole_warp: bool) -> tuple[KeyTile, Seeing]:
            return frame.place(nv.block_id.x, whole_warp)

        leader = nv.lane_id() == 0

        def consume(me: Any) -> None:
            at, sight = here = place(True)
            state = q_ring.consumer_state()

            def where() -> tuple[KeyTile, Seeing]:
                """The block's keys, anew where what is told of scores leaves no registers for them."""
                return place(True) if scores.told else here

            def anew(tile: Any) -> Any:
                """The tile, whose descriptors would else fill registers through the whole loop."""
                return tile.rows(recomputed(0), tile.layout.rows)

            def mine(tile: Any) -> Any:
                return tile.rows(recomputed(me) * 64, 64)

            def half(tile: Any) -> Any:
                columns = tile.shape[1] // CONSUMERS
                return tile.cols(recomputed(me) * columns, columns)

            def of_outs(state: Any) -> Any:
                """dP = dO V^T of this consumer's rows, which is being computed."""
                do_ring.wait(outs(state))
                dp = nv.accumulator(64, tile_n)
                dp += mine(dO) @ anew(V).T
                return dp

            def outs(state: Any) -> Any:
                """Where dO is."""
                return nv.PipelineState(1, nv.i32(0), state.stage) if early else state

            def begun(state: Any) -> Any:
                """What comes before the weights of this consumer's rows, which is being computed: S = Q K^T, and dP
                before if it is not computed beside the weights."""
                dp = [] if early else [of_outs(state)]
                q_ring.wait(state)
                s = nv.accumulator(64, tile_n)
                s += mine(Q[state.stage]) @ anew(K).T
                return [s, *dp]

            def step(given: Any, dk: Any, dv: Any, state: Any, g: Any, n: Any, last: bool) -> Any:
                """From what `begun` gave of a tile of rows to dV, dK and dQ, and to that of the next one: step ``n``
                of turn ``g``."""
                s, dp = (given[0], of_outs(state)) if early else given
                at, sight = where()
                weights = frame.weights(at)
                logs, dots, *lost = (
                    nv.row_vector(loads.beside, x + me * 64, 64)[:, None] for x in loads.beside_rows(state.stage)
                )
                tile, of_block = sight.step(g, n)
                row, head = tile * tile_m, at.head + of_block
                own = row + recomputed(me) * 64

                def pair(key: Any, query: Any, column: Any) -> tuple[Any, Any, Any]:
                    return head, own + query, at.key + key + column

                def weighed(s: Any, key: Any) -> tuple[Any, Any]:
                    """Of the block's keys from ``key`` on."""
                    hide = functools.partial(sight.hide, key=at.key + key, row=own)
                    return weights.of(s, [logs, *lost], functools.partial(pair, key), sight.partly(row), hide)

                if scores.changes:  # of few keys at a time: it takes many registers
                    steep = s
                    for key in nv.range(0, tile_n, SOME, unroll=False):
                        p, its = weighed(first_columns(steep, SOME), key)
                        p.store(mine(P).cols(key, SOME))
                        steep = moved_up(steep, its)
                else:
                    p, steep = weighed(s, 0)
                    p.store(mine(P))
                if early:
                    nv.fence_proxy_async()
                    nv.named_barrier_sync(WEIGHED, 128 * CONSUMERS)
                    dv += anew(P).T @ half(dO)
                    nv.wgmma_wait(1)
                change = steep * (dp - dots)
                if scoring.dbias is not None:
                    for key in nv.range(0, tile_n, SOME, unroll=False):
                        its = first_columns(change, SOME)
                        weights.pass_on(its, functools.partial(pair, key))
                        change = moved_up(change, its)
                grad = change.to(dtype)
                grad.store(mine(dS))
                nv.fence_proxy_async()
                nv.named_barrier_sync(SLOPED, 128 * CONSUMERS)
                if not early:
                    dv += anew(P).T @ half(dO)
                dk += anew(dS).T @ half(Q[state.stage])
                nv.wgmma_wait(1)
                do_ring.release(outs(state), leader)
                nv.wgmma_wait(0)
                q_ring.release(state, leader)
                number = first + of_block * tiles.rows + tile
                ahead = early and at_once == parts.slices and not last
                sums.begin(me)
                rounds: Any = range(1)
                if at_once < parts.slices:  # (what is told of scores leaves no registers to see)
                    needed = parts.slices if scores.told else nv.select(sight.half(own), parts.slices, 0)
                    rounds = nv.range(0, needed, at_once, unroll=False)
                for i in rounds:
                    part: Any = None
                    for j in range(at_once):  # a slice leaves while the next one is computed
                        before, part = part, nv.accumulator(64, SLICE)
                        part += grad @ anew(K).cols((i + j) * SLICE, SLICE)
                        if before is not None:
                            nv.wgmma_wait(1)
                            sums.add(before, number, me, i + j - 1)
                    if ahead:
                        given = begun(state.next())
                    nv.wgmma_wait(1 if ahead else 0)
                    sums.add(part, number, me, i + at_once - 1)
                sums.end(me)
                if not ahead and not last:
                    given = begun(state.next())
                nv.wgmma_wait(0)
                return given, dk, dv, state.next()

            grad_k, grad_v = nv.accumulator(64, size // 2), nv.accumulator(64, value_size // 2)
            if sight.any:
                loads.k_ring.wait(loads.k_ring.consumer_state())
                loads.v_ring.wait(loads.v_ring.consumer_state())
            first = tiles.first(at.number, at.sequence, at.head)
            outer, inner = sight.loops
            for g in nv.range(outer, unroll=False):
                given = begun(state)
                nv.wgmma_wait(0)
                for i in nv.range(inner - 1, unroll=False):
                    given, grad_k, grad_v, state = step(given, grad_k, grad_v, state, g, i, False)
                last = recomputed(inner) - 1  # else it would take a register through the loop
                given, grad_k, grad_v, state = step(given, grad_k, grad_v, state, g, last, True)
            nv.named_barrier_sync(WEIGHED, 128 * CONSUMERS)  # K and V, too

            at, _ = place(True)
            one = at.sequence
            if frame.shares is not None:
                frame.shares.leave((grad_k, grad_v), at, me)
            elif tiles.packed_keys:  # what is behind the sequence's last key is another one's
                for grad, out_of in ((grad_k * scoring.scale, dk), (grad_v, dv)):
                    clipped = tiles.clipped(out_of, one.k_batch, one.k_first, one.keys, at.kv_head)
                    grad.store(clipped, (at.key, me * grad.shape[1]), clip=True)
            else:
                with recomputing():
                    (grad_k * scoring.scale).store(half(K))
                    grad_v.store(half(V))
                    one_thread = nv.warpgroup_thread() == 0
                nv.fence_proxy_async()
                nv.named_barrier_sync(STORED + me, 128)
                if one_thread:
                    dk_tma.store(half(K), (one.k_batch, at.key, at.kv_head, me * (size // 2)))
                    dv_tma.store(half(V), (one.k_batch, at.key, at.kv_head, me * (value_size // 2)))
                    nv.bulk_commit_group()
                    nv.bulk_wait_group(0, read=True)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(producer)
            if nv.warp_id() == 0:
                if nv.lane_id() == 0:
                    loads.produce(*place(False), loads.begin())
            elif frame.ordered and nv.warp_id() <= CONSUMERS:
                sums.watch(*place(True), nv.warp_id() - 1)
        else:
            nv.setmaxnreg_inc(consumer)
            consume(nv.warpgroup_id() - 1)

    kernel()
