"""Attention backward for wide heads, whose dK and dV of 128 keys would not fit into registers.

A block owns a tile of 64 keys. Each of its two consumer warpgroups computes the scores of 64 rows of a tile of 128, and
adds up half of the columns of dK and dV, for which P and dS go through shared memory. dS is an operand in registers
where dQ = dS K; dQ is added up in f32 in global memory straight from registers.
"""

from __future__ import annotations

from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.forward import AS_THEY_ARE, Bias
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_load import CONSUMERS, GradientLoads
from nvdsl.kernels.attention.gradient_rows import convert_rows, sum_rows
from nvdsl.kernels.attention.gradient_scores import Weights
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile, Logarithms, OfKeys, OfQueries, Seeing
from nvdsl.kernels.attention.scores import ScoreKind
from nvdsl.kernels.attention.sequences import KeyStarts, Starts
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.order import recomputed, recomputing

TILE_M, TILE_N = 128, 64
MET, STORED = 1, 2
"""Named barriers: both consumers' P and dS are in shared memory, or have been read."""


class Parts:
    """The parts of a tile of dQ: 64 rows, and as many columns as are computed at a time, in ``slices``."""

    tile_m, count = TILE_M, CONSUMERS

    def __init__(self, size: int, swizzle: int) -> None:
        self.size, self.slices, self.swizzle = size, -(-size // 128), swizzle
        self.columns = size // self.slices
        self.shape, self.rows = (64, self.columns), 64 * self.columns // 256

    def place(self, me: nv.Int, part: int) -> tuple[nv.Int, nv.Int]:
        return me * 64, part * self.columns

    def of(self, tile: Any, me: nv.Int, part: int) -> Any:
        return tile.rows(me * 64, 64).cols(part * self.columns, self.columns)


@nv.jit
def backward_wide(
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
    """The same as `backward.backward`, for heads of up to 256; their sizes in shared memory are multiples of 64, 128 at
    least."""
    size, value_size = config.sizes
    tiles, parts = (
        GradientTiles(q, k, q_starts, k_starts, TILE_M, TILE_N, any(bounded)),
        Parts(size, config.swizzle(size)),
    )

    sums = sum_rows(dout, out, lse, tiles, TILE_M)
    total = nv.zeros((tiles.count * (parts.count * parts.slices * parts.rows), 256), nv.f32)
    turns = nv.zeros(tiles.count * parts.count, nv.i32) if ordered else None

    loads = GradientLoads(dout, q, k, v, sums, tiles, config)
    dk_tma = nv.TMA(dk, tile=(1, TILE_N, 1, size // 2), swizzle=config.swizzle(size))
    dv_tma = nv.TMA(dv, tile=(1, TILE_N, 1, value_size // 2), swizzle=config.swizzle(value_size))

    @nv.kernel(grid=tiles.blocks, block=128 * (1 + CONSUMERS))
    def kernel() -> None:
        loads.allocate()
        K, V, Q, dO, q_ring, do_ring = loads.K, loads.V, loads.Q[0], loads.dO[0], loads.q_ring, loads.do_ring
        P, dS = nv.smem((TILE_M, TILE_N), q.dtype, swizzle=128), nv.smem((TILE_M, TILE_N), q.dtype, swizzle=128)
        nv.sync_threads()

        def place(whole_warp: bool) -> tuple[KeyTile, Seeing]:
            """The block's keys; each time anew rather than in registers."""
            at = tiles.keys_of(recomputed(nv.block_id.x), whole_warp)
            return at, Seeing(tiles, at, left if bounded[0] else None, right if bounded[1] else None)

        leader = nv.lane_id() == 0

        def consume(me: Any) -> None:
            at, sight = place(True)
            weights = Weights(scores, at, scale, softcap, bias, operands)
            state = q_ring.consumer_state()

            def anew(tile: Any) -> Any:
                """The tile, whose descriptors would else fill registers through the whole loop."""
                return tile.rows(recomputed(0), tile.layout.rows)

            def mine(tile: Any) -> Any:
                return tile.rows(recomputed(me) * 64, 64)

            def half(tile: Any) -> Any:
                columns = tile.shape[1] // CONSUMERS
                return tile.cols(recomputed(me) * columns, columns)

            def begun(state: Any) -> Any:
                """S = Q K^T and dP = dO V^T of this consumer's rows."""
                dp, s = nv.accumulator(64, TILE_N), nv.accumulator(64, TILE_N)
                do_ring.wait(state)
                dp += mine(dO) @ anew(V).T
                q_ring.wait(state)
                s += mine(Q) @ anew(K).T
                nv.named_barrier_sync(MET, 128 * CONSUMERS)  # both have read P and dS
                nv.wgmma_wait(0)
                return s, dp

            def row_of(first: Any) -> Any:
                """What stands beside this consumer's rows."""
                return nv.row_vector(loads.beside, first + me * 64, 64)[:, None]

            def weigh(s: Any, dp: Any, row: Any, head: Any) -> Any:
                """P and dS of this consumer's rows, in shared memory, and dS in registers."""
                logs, dots = (row_of(first) for first in loads.beside_rows(0))
                own = row + recomputed(me) * 64
                x = weights.logarithms(s, lambda query, key: (head, own + query, at.key + key)) - logs
                if sight.partly(row):
                    x = sight.hide(x, at.key, own)
                p = nv.math.exp2_approx(x)
                grad = weights.slopes(p, dp - dots, s, lambda: logs).to(q.dtype)
                p.store(mine(P))
                grad.store(mine(dS))
                nv.fence_proxy_async()
                nv.named_barrier_sync(MET, 128 * CONSUMERS)
                return grad

            def spread(grad: Any, dk: Any, dv: Any, state: Any, tile: Any, number: Any) -> Any:
                """dV += P^T dO, dK += dS^T Q and dQ += dS K."""
                dv += anew(P).T @ half(dO)
                dk += anew(dS).T @ half(Q)
                number = number * parts.count + me
                start = number * (parts.slices * parts.rows)
                nv.wgmma_wait(1)
                do_ring.release(state, leader)
                nv.wgmma_wait(0)
                q_ring.release(state, leader)
                if turns is not None:
                    before = nv.max(tile * TILE_M + sight.offset - left, 0) // TILE_N if bounded[0] else 0
                    turn = at.key // TILE_N - before
                    if nv.warpgroup_thread() == 0:
                        while load_acquire(turns, number) != turn:
                            pass
                    nv.named_barrier_sync(STORED + me, 128)
                for i in nv.range(parts.slices, unroll=False):
                    part = nv.accumulator(*parts.shape)
                    part += grad @ anew(K).cols(i * parts.columns, parts.columns)
                    nv.wgmma_wait(0)
                    add_registers(part, total, start + i * parts.rows)
                if turns is not None:
                    nv.named_barrier_sync(STORED + me, 128)
                    if nv.warpgroup_thread() == 0:
                        nv.threadfence()
                        store_release(turns, number, turn + 1)
                return dk, dv

            grad_k, grad_v = nv.accumulator(64, size // 2), nv.accumulator(64, value_size // 2)
            loads.wait_for_keys()
            first, end = sight.first, sight.end
            for g in nv.range(nv.select(first < end, tiles.group, 0), unroll=False):
                head = at.kv_head * tiles.group + g
                number = tiles.first(at.number, at.sequence, head)
                s, dp = begun(state)
                for tile in nv.range(first, end - 1, unroll=False):
                    grad = weigh(s, dp, tile * TILE_M, head)
                    grad_k, grad_v = spread(grad, grad_k, grad_v, state, tile, number + tile)
                    state = state.next()
                    s, dp = begun(state)
                grad = weigh(s, dp, (end - 1) * TILE_M, head)
                grad_k, grad_v = spread(grad, grad_k, grad_v, state, end - 1, number + end - 1)
                state = state.next()
                nv.named_barrier_sync(MET, 128 * CONSUMERS)

            at, _ = place(True)
            one = at.sequence
            if tiles.packed_keys:  # what is behind the sequence's last key is another one's
                for grad, out_of in ((grad_k * scale, dk), (grad_v, dv)):
                    clipped = tiles.clipped(out_of, one.k_batch, one.k_first, one.keys, at.kv_head)
                    grad.store(clipped, (at.key, me * grad.shape[1]), clip=True)
            else:
                with recomputing():
                    (grad_k * scale).store(half(K))
                    grad_v.store(half(V))
                nv.fence_proxy_async()
                nv.named_barrier_sync(STORED + me, 128)
                if nv.warpgroup_thread() == 0:
                    dk_tma.store(half(K), (one.k_batch, at.key, at.kv_head, me * (size // 2)))
                    dv_tma.store(half(V), (one.k_batch, at.key, at.kv_head, me * (value_size // 2)))
                    nv.bulk_commit_group()
                    nv.bulk_wait_group(0, read=True)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(24)
            if nv.warpgroup_thread() == 0:
                loads.produce(*place(False))
        else:
            nv.setmaxnreg_inc(240)
            consume(nv.warpgroup_id() - 1)

    kernel()
    convert_rows(total, dq, scale, tiles, parts)


def add_registers(fragment: Any, total: nv.Array, start: nv.Int) -> None:
    """Add a warpgroup's fragment to ``total`` from row ``start`` on, in the order of its registers."""
    (registers,) = fragment.registers()
    thread = nv.warpgroup_thread()
    for i in range(0, len(registers), 4):
        total.atomic_add((start + thread // 64 + i // 2, thread % 64 * 4), nv.vector(registers[i : i + 4]))
