"""Attention backward for heads of 136 to 192: one consumer warpgroup holds dV, the other dK.

A block owns a tile of 96 keys, a half more than `backward_wide` has registers for, and so loads all of Q and dO, and
adds to all of dQ, a third less often: L2 bounds that kernel. What a consumer holds is transposed, 64 columns of a head
by 96 keys, so that 192 columns are three products of 64 rows. Each computes the scores of half of the keys and dQ of
half of the columns, and both go through shared memory for P and dS.

    dP = dO V      while it runs: P = exp(S - LSE)
                   then dS = P (dP - sum); both to shared memory, where the consumers meet
    dQ = dS K      in two pieces
    dV += P dO     of one consumer, or dK += dS Q of the other; while it runs: dQ is added up, straight from registers
    S = Q K        of the next tile of rows
"""

from __future__ import annotations

import functools
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_frame import GradientFrame
from nvdsl.kernels.attention.gradient_load import CONSUMERS
from nvdsl.kernels.attention.gradient_scores import SOME, first_columns, moved_up
from nvdsl.kernels.attention.gradient_tiles import KeyTile, Seeing
from nvdsl.ops.order import recomputed, recomputing

PIECE = 64
"""Columns of a head in a product, at most."""
WEIGHED, STORED = 1, 4
"""Named barriers: both consumers' P and dS are in shared memory; dK, or dV, is (the first of two)."""
ACCESS = 8
"""16-bit elements of an access of 16 bytes."""


def backward_apart(frame: GradientFrame) -> None:
    """For heads of up to 192; their sizes in shared memory are multiples of 64."""
    config, tiles, loads, sums, scoring = frame.config, frame.tiles, frame.loads, frame.sums, frame.scoring
    scores, dtype, tile_m, tile_n = scoring.kind, frame.dtype, config.tile_m, config.tile_n
    parts, own_keys = sums.parts, tile_n // CONSUMERS
    pieces = [(first, min(PIECE, parts.columns - first)) for first in range(0, parts.columns, PIECE)]
    producer, consumer = frame.registers

    @nv.kernel(grid=tiles.blocks, block=128 * (1 + CONSUMERS), programmatic=True)
    def kernel() -> None:
        loads.allocate()
        K, V, Q, dO, q_ring, do_ring = loads.K[0], loads.V[0], loads.Q, loads.dO, loads.q_ring, loads.do_ring
        P = nv.smem((2, tile_m, tile_n), dtype, swizzle=32)
        dS = nv.smem((2, tile_m, tile_n), dtype, swizzle=32)
        nv.sync_threads()
        nv.griddep_wait()

        def place(whole_warp: bool) -> tuple[KeyTile, Seeing]:
            return frame.place(nv.block_id.x, whole_warp)

        leader = nv.lane_id() == 0

        def consume(me: int) -> None:
            """``me``: 0 holds dV, 1 dK."""
            at, sight = here = place(True)
            of_v, of_k = (dO, P, frame.dv, V, 1.0), (Q, dS, frame.dk, K, scoring.scale)
            operand, weights_of, array, room, factor = [of_v, of_k][me]
            blocks = config.sizes[1 - me] // PIECE

            def where() -> tuple[KeyTile, Seeing]:
                """The block's keys, anew where what becomes of scores leaves no registers for them."""
                return place(True) if scores.changes else here

            def mine(tile: Any) -> Any:
                """This consumer's keys. Their descriptors would else fill registers through the whole loop."""
                return tile.rows(recomputed(me * own_keys), own_keys)

            def begun(state: Any) -> Any:
                """S = Q K^T, which is being computed."""
                q_ring.wait(state)
                s = nv.accumulator(64, own_keys)
                s += Q[state.stage] @ mine(K).T
                return s

            def of_outs(state: Any) -> Any:
                """dP = dO V^T, which is being computed."""
                do_ring.wait(state)
                dp = nv.accumulator(64, own_keys)
                dp += dO[state.stage] @ mine(V).T
                return dp

            def step(s: Any, grad: Any, state: Any, g: Any, n: Any, last: bool) -> Any:
                """From the scores of a tile of rows to ``grad`` and dQ, and to the scores of the next one: step ``n``
                of turn ``g``."""
                dp = None if scores.bias else of_outs(state)  # registers suffice for one of them
                at, sight = where()
                weights = frame.weights(at)
                logs, dots, *lost = (
                    nv.row_vector(loads.beside, x, 64)[:, None] for x in loads.beside_rows(state.stage)
                )
                tile, of_block = sight.step(g, n)
                row, own, head = tile * tile_m, at.key + me * own_keys, at.head + of_block

                def pair(begin: Any, query: Any, key: Any) -> tuple[Any, Any, Any]:
                    return head, row + query, own + begin + key

                def weighed(s: Any, begin: Any) -> tuple[Any, Any]:
                    """Of this consumer's keys from ``begin`` on."""
                    hide = functools.partial(sight.hide, key=own + begin, row=row)
                    return weights.of(s, [logs, *lost], functools.partial(pair, begin), sight.partly(row), hide)

                if scores.changes:  # of few keys at a time: it takes many registers
                    steep = s
                    for key in nv.range(0, own_keys, SOME, unroll=False):
                        p, its = weighed(first_columns(steep, SOME), key)
                        p.store(P[state.stage].cols(me * own_keys + key, SOME))
                        steep = moved_up(steep, its)
                else:
                    p, steep = weighed(s, 0)
                    p.store(P[state.stage].cols(me * own_keys, own_keys))
                dp = of_outs(state) if dp is None else dp
                nv.wgmma_wait(0)
                change = steep * (dp - dots)
                if scoring.dbias is not None:
                    for key in nv.range(0, own_keys, SOME, unroll=False):
                        its = first_columns(change, SOME)
                        weights.pass_on(its, functools.partial(pair, key))
                        change = moved_up(change, its)
                change.store(dS[state.stage].cols(me * own_keys, own_keys))
                nv.fence_proxy_async()
                nv.named_barrier_sync(WEIGHED, 128 * CONSUMERS)
                found = []
                for begin, count in pieces:
                    part = nv.accumulator(64, count)
                    part += dS[state.stage] @ K.cols(recomputed(me * parts.columns) + begin, count)
                    found.append(part)
                for i in range(blocks):
                    grad[i] += operand[state.stage].cols(recomputed(i * PIECE), PIECE).T @ weights_of[state.stage]
                number = first + of_block * tiles.rows + tile
                sums.begin(me)
                for i, ((begin, _), part) in enumerate(zip(pieces, found, strict=True)):
                    nv.wgmma_wait(blocks + len(pieces) - 1 - i + (i > 0 and not last))
                    sums.add(part, number, me, first=begin)
                    if i == 0 and not last:
                        s = begun(state.next())
                sums.end(me)
                nv.wgmma_wait(0 if last else 1)
                q_ring.release(state, leader)
                do_ring.release(state, leader)
                nv.wgmma_wait(0)
                return s, grad, state.next()

            state, first = q_ring.consumer_state(), tiles.first(at.number, at.sequence, at.head)
            grad = [nv.accumulator(PIECE, tile_n) for _ in range(blocks)]
            if sight.any:
                loads.k_ring.wait(loads.k_ring.consumer_state())
                loads.v_ring.wait(loads.v_ring.consumer_state())
            outer, inner = sight.loops
            for g in nv.range(outer, unroll=False):
                s = begun(state)
                nv.wgmma_wait(0)
                for i in nv.range(inner - 1, unroll=False):
                    s, grad, state = step(s, grad, state, g, i, False)
                last = recomputed(inner) - 1  # else it would take a register through the loop
                s, grad, state = step(s, grad, state, g, last, True)
            nv.named_barrier_sync(WEIGHED, 128 * CONSUMERS)  # nobody reads K and V any more
            if frame.shares is not None:
                frame.shares.leave(grad, place(True)[0], me)
                return

            with recomputing():
                for number, block in enumerate(grad):
                    (block * factor).store(room.cols(number * PIECE, PIECE).T)
            nv.named_barrier_sync(STORED + me, 128)
            at, _ = place(True)
            one, columns = at.sequence, array.shape[3] // ACCESS
            for access in nv.range(nv.warpgroup_thread(), tile_n * columns, 128, unroll=False):
                key, column = access // columns, access % columns * ACCESS
                its = one.k_batch, one.k_first + at.key + key, at.kv_head, column
                array.store(its, room.vector((key, column), ACCESS), predicate=at.key + key < one.keys)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(producer)
            if nv.warp_id() == 0:
                if nv.lane_id() == 0:
                    loads.produce(*place(False), loads.begin())
            elif frame.ordered and nv.warp_id() <= CONSUMERS:
                sums.watch(*place(True), nv.warp_id() - 1)
        else:
            nv.setmaxnreg_inc(consumer)
            if nv.warpgroup_id() == 1:
                consume(0)
            else:
                consume(1)

    kernel()
