"""Attention backward: one producer warp, two warps that add up dQ, one that draws tiles, and two consumer warpgroups.

A block takes tiles of 128 keys, one after the other. Its consumers hold dK and dV of 64 keys each in registers, and go
over the tiles of rows that see these keys. All scores are transposed, S^T = K Q^T and dP^T = V dO^T, so that P^T and
dS^T are operands in registers: dV += P^T dO and dK += dS^T Q. dS goes through shared memory, because dQ = dS K sums
over the keys of both consumers; each computes a part of dQ. It is added up in f32 in global memory by bulk reductions
(Dao, "FlashAttention-2", arXiv 2307.08691; Shah et al., "FlashAttention-3", arXiv 2407.08608).

A step keeps the tensor cores busy while it computes:

    dP = V dO      while it runs: P = exp(S - LSE)
    dV += P dO     while it runs: dS = P (dP - sum), and dS to shared memory
    dK += dS Q
    dQ = dS K      of the tile of rows before
    S = K Q        of the next tile of rows; while it runs: dQ to shared memory

dQ comes a step late, so that no consumer waits in the middle of a step for the other's dS: one computes while the
tensor cores are the other's. The last dQ of a tile of keys comes with the first step of the next one: K of both is in
shared memory, and consumers do not meet between two tiles, either.
"""

from __future__ import annotations

import functools
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_frame import GradientFrame
from nvdsl.kernels.attention.gradient_load import CONSUMERS
from nvdsl.kernels.attention.gradient_rounds import Rounds
from nvdsl.kernels.attention.gradient_staged import StagedSums
from nvdsl.kernels.attention.gradient_tiles import KeyTile, Seeing
from nvdsl.ops.order import recomputed, recomputing


def backward(frame: GradientFrame) -> None:
    """For heads of up to 128."""
    config, tiles, loads, scoring, dtype = frame.config, frame.tiles, frame.loads, frame.scoring, frame.dtype
    tile_m, tile_n, (size, value_size) = config.tile_m, config.tile_n, config.sizes
    rounds, late = Rounds(tiles, config), config.keys > 1
    producer, consumer = frame.registers
    apart = tiles.packed_keys or frame.shares is not None  # dK and dV leave from registers
    sums, parts = StagedSums(frame.sums, () if apart else (frame.dk, frame.dv), config), frame.sums.parts

    @nv.kernel(grid=rounds.grid, block=128 * (1 + CONSUMERS), programmatic=True)
    def kernel() -> None:
        loads.allocate()
        Q, dO, q_ring, do_ring = loads.Q, loads.dO, loads.q_ring, loads.do_ring
        dS = nv.smem((2, tile_m, tile_n), dtype, swizzle=128)
        sums.allocate()
        rounds.allocate()
        stepped = nv.Mbarriers(2, arrivals=4 * CONSUMERS, sync=False)  # a tile's dS are there, and those before it read
        nv.sync_threads()
        nv.griddep_wait()

        leader = nv.lane_id() == 0

        def dq_of(state: Any, keys: Any, me: Any) -> Any:
            """A part of dQ of the tile of rows before, which is being computed. ``keys``: the stage of its K."""
            part = nv.accumulator(*parts.shape)
            part += parts.product(dS[1 - state.stage], loads.K[keys], recomputed(me))
            return part

        def last_dq(state: Any, keys: Any, me: Any) -> None:
            """Hand on dQ of the tile of rows before, after which there is none."""
            stepped[1 - state.stage].wait(state.phase)
            part = dq_of(state, keys, me)
            nv.wgmma_wait(0)
            sums.hand_on(part, me, state.stage)

        def consume(me: Any, state: Any) -> Any:
            """All rows that see a tile of keys."""
            work = rounds.kept()
            at, sight = found = frame.place(work.tile, True)
            here = work.keys.stage
            K, V = loads.K[here], loads.V[work.values.stage]

            def where() -> tuple[KeyTile, Seeing]:
                """The tile's keys, anew where what is told of scores leaves no registers for them."""
                return frame.place(rounds.kept().tile, True) if scoring.kind.told else found

            def mine(tile: Any) -> Any:
                """This consumer's keys. Their descriptors would else fill registers through the whole loop."""
                return tile.rows(recomputed(me) * 64, 64)

            def begun(state: Any) -> Any:
                """S^T = K Q^T of a tile of rows, which is being computed."""
                q_ring.wait(state)
                s = nv.accumulator(64, tile_m)
                s += mine(K) @ Q[state.stage].T
                return s

            def column(first: Any) -> Any:
                """What stands beside the rows of Q."""
                return nv.column_vector(loads.beside, first, tile_m)[None, :]

            def step(s: Any, dk: Any, dv: Any, state: Any, before: Any, g: Any, n: Any, last: bool) -> Any:
                """From the scores of a tile of rows to dV and dK, and to the scores of the next one: step ``n`` of
                turn ``g``. ``before``: the stage of K whose dQ comes."""
                do_ring.wait(state)
                dp = nv.accumulator(64, tile_m)
                dp += mine(V) @ dO[state.stage].T
                logs, dots, *lost = loads.beside_rows(state.stage)
                at, sight = where()
                weights = frame.weights(at)
                own = at.key + recomputed(me) * 64
                tile, of_block = sight.step(g, n, rows_matter=False)
                row, head = tile * tile_m, at.head + of_block

                def pair(key: Any, query: Any) -> tuple[Any, Any, Any]:
                    return head, row + query, own + key

                hide = functools.partial(sight.hide, key=own, row=row, transposed=True)
                p, steep = weights.of(s, [column(x) for x in (logs, *lost)], pair, sight.partly(row), hide)
                dv += p.to(dtype) @ dO[state.stage]
                nv.wgmma_wait(1)
                change = steep * (dp - column(dots))
                weights.pass_on(change, pair)
                grad = change.to(dtype)
                stepped[1 - state.stage].wait(state.phase)
                grad.store(dS[state.stage].cols(recomputed(me) * 64, 64).T)
                dk += grad @ Q[state.stage]
                nv.fence_proxy_async()
                nv.sync_warp()
                part = dq_of(state, before, me)
                nv.wgmma_wait(1)  # for dV and dK: their operands' registers are free for S
                do_ring.release(state, leader)
                q_ring.release(state, leader)
                if not last:
                    s = begun(state.next())
                nv.wgmma_wait(0 if last else 1)
                stepped[state.stage].arrive(predicate=leader)
                if late:
                    with recomputing():
                        over = (nv.warpgroup_thread() == 0) & (before != here)
                    loads.k_ring.release(nv.PipelineState(config.keys, before), over)
                sums.hand_on(part, recomputed(me), state.stage)
                nv.wgmma_wait(0)
                return s, dk, dv, state.next(), here

            grad_k, grad_v = nv.accumulator(64, size), nv.accumulator(64, value_size)
            if sight.any:
                loads.k_ring.wait(work.keys)
                loads.v_ring.wait(work.values)
            before = nv.select(work.started, 1 - here, here) if late else here
            outer, inner = sight.loops
            for g in nv.range(outer, unroll=False):
                s = begun(state)
                nv.wgmma_wait(0)
                for i in nv.range(inner - 1, unroll=False):
                    s, grad_k, grad_v, state, before = step(s, grad_k, grad_v, state, before, g, i, False)
                last = recomputed(inner) - 1  # else it would take a register through the loop
                s, grad_k, grad_v, state, before = step(s, grad_k, grad_v, state, before, g, last, True)

            with recomputing():
                one_thread, me = nv.warpgroup_thread() == 0, nv.warpgroup_id() - 1
            work = rounds.kept()
            at, sight = frame.place(work.tile, True)
            loads.v_ring.release(work.values, one_thread & sight.any)
            if not late:
                if sight.any:
                    last_dq(state, here, me)
                loads.k_ring.release(work.keys, one_thread & sight.any)
            if frame.shares is not None:
                frame.shares.leave((grad_k, grad_v), at, me)
            elif tiles.packed_keys:  # what is behind the sequence's last key is another one's
                one, row = at.sequence, at.key + me * 64
                for grad, out_of in ((grad_k * scoring.scale, frame.dk), (grad_v, frame.dv)):
                    clipped = tiles.clipped(out_of, one.k_batch, one.k_first, one.keys, at.kv_head)
                    grad.store(clipped, (row, 0), clip=True)
            else:
                sums.leave(grad_k * scoring.scale, grad_v, dtype, me, state.stage)
            rounds.keep(rounds.next(work, sight.any))
            return state

        def begin(me: Any) -> None:
            """Leave no dS of what is before the first tile."""
            nothing = nv.accumulator(64, tile_m).to(dtype)
            nothing.store(dS[1].cols(me * 64, 64).T)
            nv.fence_proxy_async()
            nv.sync_warp()
            stepped[1].arrive(predicate=leader)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(producer)
            if nv.warp_id() == 0:
                if nv.lane_id() == 0:
                    work, states = rounds.begin(), loads.begin()
                    while work.valid:
                        at, sight = frame.place(work.tile, False)
                        states = loads.produce(at, sight, states)
                        work = rounds.ask(work, sight.any)
            elif nv.warp_id() <= CONSUMERS:
                me, pending, work = nv.warp_id() - 1, sums.nothing(), rounds.begin()
                while work.valid:
                    at, sight = frame.place(work.tile, True)
                    pending = sums.take(at, sight, me, pending, None if apart else dtype)
                    work = rounds.next(work, sight.any)
                sums.finish(me, pending)
            elif nv.lane_id() == 0:
                rounds.draw()
        else:
            nv.setmaxnreg_inc(consumer)
            me = nv.warpgroup_id() - 1
            begin(me)
            rounds.keep(rounds.begin())
            state = q_ring.consumer_state()
            while rounds.kept().valid:
                state = consume(me, state)
            if late:
                work = rounds.kept()
                if work.started:
                    last_dq(state, 1 - work.keys.stage, me)

    kernel()
