"""Attention backward: one producer warp, two warps that add up dQ, and two consumer warpgroups.

A block owns a tile of 128 keys. Its consumers hold dK and dV of 64 keys each in registers, and go over the tiles of
rows that see these keys. All scores are transposed, S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T are operands in
registers: dV += P^T dO and dK += dS^T Q. dS goes through shared memory, because dQ = dS K sums over the keys of both
consumers; each computes a part of dQ. It is added up in f32 in global memory by bulk reductions (Dao,
"FlashAttention-2", arXiv 2307.08691; Shah et al., "FlashAttention-3", arXiv 2407.08608).

A step keeps the tensor cores busy while it computes:

    dP = V dO      while it runs: P = exp(S - LSE)
    dV += P dO     while it runs: dS = P (dP - sum), and dS to shared memory
    dK += dS Q
    dQ = dS K      of the tile of rows before
    S = K Q        of the next tile of rows; while it runs: dQ to shared memory

dQ comes a step late, so that no consumer waits in the middle of a step for the other's dS: one computes while the
tensor cores are the other's.
"""

from __future__ import annotations

import functools
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.forward import AS_THEY_ARE, Bias
from nvdsl.kernels.attention.gradient_bias import OfBias
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_load import CONSUMERS, GradientLoads
from nvdsl.kernels.attention.gradient_rows import sum_rows
from nvdsl.kernels.attention.gradient_scores import Weights
from nvdsl.kernels.attention.gradient_sums import Parts, StagedSums
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile, Logarithms, OfKeys, OfQueries, Seeing
from nvdsl.kernels.attention.scores import ScoreKind
from nvdsl.kernels.attention.sequences import KeyStarts, Starts
from nvdsl.ops.order import recomputed, recomputing

TILE_N = 64 * CONSUMERS
MET, STORED = 1, 2
"""Named barriers: both consumers have read all of K; a consumer's dK and dV are in shared memory (the first of two)."""


@nv.jit
def backward(
    dout: OfQueries,
    q: OfQueries,
    k: OfKeys,
    v: OfKeys,
    out: OfQueries,
    lse: Logarithms,
    dq: OfQueries,
    dk: OfKeys,
    dv: OfKeys,
    q_starts: Starts | None,
    k_starts: KeyStarts | None,
    bias: Bias | None,
    dbias: OfBias | None,
    scale: float,
    left: int,
    right: int,
    softcap: float,
    *operands: Any,
    config: Config,
    bounded: tuple[bool, bool] = (False, False),
    scores: ScoreKind = AS_THEY_ARE,
    ordered: bool = False,
) -> None:
    """dQ, dK and dV of ``out = softmax(scale * q k^T) v``, whose logarithms of the sums are ``lse``.

    ``bounded``: whether a row sees at most ``left`` keys before its own, and ``right`` keys behind it. For ``scores``,
    ``softcap``, ``bias``, ``dbias`` and ``operands`` see `Weights`. ``ordered``: whether dQ is added up in the order of
    the keys.
    """
    tile_m, (size, value_size) = config.tile_m, config.sizes
    tiles = GradientTiles(q, k, q_starts, k_starts, tile_m, TILE_N, any(bounded))
    parts = Parts(tile_m, size, config.k_swizzle)

    row_sums = sum_rows(dout, out, lse, tiles, tile_m)
    sums = StagedSums(tiles, parts, ordered, config.parts)
    producer, consumer = config.registers(tiles.packed or tiles.packed_keys)
    loads = GradientLoads(dout, q, k, v, row_sums, tiles, config)
    dk_tma = nv.TMA(dk, tile=(1, 64, 1, size), swizzle=config.k_swizzle)
    dv_tma = nv.TMA(dv, tile=(1, 64, 1, value_size), swizzle=config.swizzle(value_size))

    @nv.kernel(grid=tiles.blocks, block=128 * (1 + CONSUMERS))
    def kernel() -> None:
        loads.allocate()
        K, V, Q, dO, q_ring, do_ring = loads.K, loads.V, loads.Q, loads.dO, loads.q_ring, loads.do_ring
        dS = nv.smem((2, tile_m, TILE_N), q.dtype, swizzle=128)
        sums.allocate()
        stepped = nv.Mbarriers(2, arrivals=4 * CONSUMERS, sync=False)  # a tile's dS are there, and those before it read
        nv.sync_threads()

        def place(whole_warp: bool) -> tuple[KeyTile, Seeing]:
            """The block's keys; each time anew rather than in registers."""
            at = tiles.keys_of(recomputed(nv.block_id.x), whole_warp)
            sides = left if bounded[0] else None, right if bounded[1] else None
            return at, Seeing(tiles, at, *sides, ordered or scores.told)

        leader = nv.lane_id() == 0

        def consume(me: Any) -> None:
            at, sight = place(True)
            weights = Weights(scores, at, scale, softcap, bias, dbias, operands)
            state = q_ring.consumer_state()

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

            def dq_before(state: Any) -> Any:
                """dQ of the tile of rows before, which is being computed."""
                part = nv.accumulator(*parts.shape)
                part += parts.product(dS[1 - state.stage], K, recomputed(me))
                return part

            def step(s: Any, dk: Any, dv: Any, state: Any, row: Any, head: Any, last: bool) -> Any:
                """From the scores of a tile of rows to dV and dK, and to the scores of the next one."""
                do_ring.wait(state)
                dp = nv.accumulator(64, tile_m)
                dp += mine(V) @ dO[state.stage].T
                logs, dots = loads.beside_rows(state.stage)
                own = at.key + recomputed(me) * 64

                def pair(key: Any, query: Any) -> tuple[Any, Any, Any]:
                    return head, row + query, own + key

                hide = functools.partial(sight.hide, key=own, row=row, transposed=True)
                p, steep = weights.of(s, column(logs), pair, sight.partly(row), hide)
                dv += p.to(q.dtype) @ dO[state.stage]
                nv.wgmma_wait(1)
                change = steep * (dp - column(dots))
                weights.pass_on(change, pair)
                grad = change.to(q.dtype)
                stepped[1 - state.stage].wait(state.phase)
                grad.store(dS[state.stage].cols(recomputed(me) * 64, 64).T)
                dk += grad @ Q[state.stage]
                nv.fence_proxy_async()
                nv.sync_warp()
                part = dq_before(state)
                nv.wgmma_wait(1)  # for dV and dK: their operands' registers are free for S
                do_ring.release(state, leader)
                q_ring.release(state, leader)
                if not last:
                    s = begun(state.next())
                nv.wgmma_wait(0 if last else 1)
                stepped[state.stage].arrive(predicate=leader)
                sums.hand_on(part, recomputed(me), state.stage)
                nv.wgmma_wait(0)
                return s, dk, dv, state.next()

            grad_k, grad_v = nv.accumulator(64, size), nv.accumulator(64, value_size)
            nothing = nv.accumulator(64, tile_m).to(q.dtype)  # dS of what is before the first tile
            nothing.store(dS[1].cols(me * 64, 64).T)
            nv.fence_proxy_async()
            nv.sync_warp()
            stepped[1].arrive(predicate=leader)
            loads.wait_for_keys()
            first, end = sight.first, sight.end
            for g in nv.range(sight.heads(tiles.group), unroll=False):
                head = at.kv_head * tiles.group + g
                s = begun(state)
                nv.wgmma_wait(0)
                for tile in nv.range(first, end - 1, unroll=False):  # where their order is another, rows don't matter
                    s, grad_k, grad_v, state = step(s, grad_k, grad_v, state, tile * tile_m, head, False)
                s, grad_k, grad_v, state = step(s, grad_k, grad_v, state, (end - 1) * tile_m, head, True)
            if sight.heads(tiles.group) > 0:
                stepped[1 - state.stage].wait(state.phase)
                part = dq_before(state)
                nv.wgmma_wait(0)
                sums.hand_on(part, recomputed(me), state.stage)

            nv.named_barrier_sync(MET, 128 * CONSUMERS)  # both have read all of K
            at, _ = place(True)
            one, row = at.sequence, at.key + me * 64
            if tiles.packed_keys:  # what is behind the sequence's last key is another one's
                for grad, out_of in ((grad_k * scale, dk), (grad_v, dv)):
                    clipped = tiles.clipped(out_of, one.k_batch, one.k_first, one.keys, at.kv_head)
                    grad.store(clipped, (row, 0), clip=True)
            else:
                with recomputing():
                    (grad_k * scale).store(mine(K))
                    grad_v.store(mine(V))
                nv.fence_proxy_async()
                nv.named_barrier_sync(STORED + me, 128)
                if nv.warpgroup_thread() == 0:
                    dk_tma.store(mine(K), (one.k_batch, row, at.kv_head, 0))
                    dv_tma.store(mine(V), (one.k_batch, row, at.kv_head, 0))
                    nv.bulk_commit_group()
                    nv.bulk_wait_group(0, read=True)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(producer)
            if nv.warp_id() == 0:
                if nv.lane_id() == 0:
                    loads.produce(*place(False))
            elif nv.warp_id() <= CONSUMERS:
                sums.add_up(*place(True), nv.warp_id() - 1)
        else:
            nv.setmaxnreg_inc(consumer)
            consume(nv.warpgroup_id() - 1)

    kernel()
    sums.convert(dq, scale)
