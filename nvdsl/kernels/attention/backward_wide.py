"""Attention backward for wide heads, whose dK and dV of 128 keys would not fit into registers.

A block owns a tile of 64 keys. Each of its two consumer warpgroups computes the scores of 64 rows of a tile of 128, and
adds up half of the columns of dK and dV, for which P and dS go through shared memory. dS is an operand in registers
where dQ = dS K; dQ is added up in f32 in global memory straight from registers.
"""

from __future__ import annotations

import math
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_rows import LOG2_E, convert_rows, sum_rows
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile, Logarithms, OfKeys, OfQueries
from nvdsl.kernels.attention.sequences import KeyStarts, Starts
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.order import recomputed, recomputing

CONSUMERS = 2
TILE_M, TILE_N = 128, 64
COLUMNS = 128
"""Of dQ that are computed at a time."""
MET, STORED = 1, 2
"""Named barriers: both consumers' P and dS are in shared memory, or have been read."""
MOST = 2**30
"""More rows than there are."""


class Parts:
    """The parts of a tile of dQ: 64 rows and 64 columns."""

    tile_m, count, swizzle, shape, rows = TILE_M, CONSUMERS, 128, (64, COLUMNS), 64 * COLUMNS // 256

    def __init__(self, size: int) -> None:
        self.size, self.slices = size, size // COLUMNS

    def place(self, me: nv.Int, part: int) -> tuple[nv.Int, nv.Int]:
        return me * 64, part * COLUMNS

    def of(self, tile: Any, me: nv.Int, part: int) -> Any:
        return tile.rows(me * 64, 64).cols(part * COLUMNS, COLUMNS)


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
    scale: float,
    left: int,
    right: int,
    softcap: float,
    *,
    bounded: tuple[bool, bool] = (False, False),
    capped: bool = False,
    ordered: bool = False,
) -> None:
    """The same as `backward.backward`, for heads of up to 256."""
    size, value_size = (-(-x.shape[3] // 128) * 128 for x in (q, v))
    tiles, parts = GradientTiles(q, k, q_starts, k_starts, TILE_M, TILE_N, any(bounded)), Parts(size)

    sums = sum_rows(dout, out, lse, tiles, TILE_M)
    total = nv.zeros((tiles.count * (parts.count * parts.slices * parts.rows), 256), nv.f32)
    turns = nv.zeros(tiles.count * parts.count, nv.i32) if ordered else None

    q_tma, k_tma = (nv.TMA(x, tile=(1, n, 1, size), swizzle=128) for x, n in ((q, TILE_M), (k, TILE_N)))
    do_tma, v_tma = (nv.TMA(x, tile=(1, n, 1, value_size), swizzle=128) for x, n in ((dout, TILE_M), (v, TILE_N)))
    dk_tma = nv.TMA(dk, tile=(1, TILE_N, 1, size // 2), swizzle=128)
    dv_tma = nv.TMA(dv, tile=(1, TILE_N, 1, value_size // 2), swizzle=128)

    @nv.kernel(grid=tiles.blocks, block=128 * (1 + CONSUMERS))
    def kernel() -> None:
        K, V = nv.smem((TILE_N, size), k.dtype, swizzle=128), nv.smem((TILE_N, value_size), v.dtype, swizzle=128)
        Q, dO = nv.smem((TILE_M, size), q.dtype, swizzle=128), nv.smem((TILE_M, value_size), q.dtype, swizzle=128)
        P, dS = nv.smem((TILE_M, TILE_N), q.dtype, swizzle=128), nv.smem((TILE_M, TILE_N), q.dtype, swizzle=128)
        beside = nv.smem(2 * TILE_M, nv.f32)
        loaded = nv.Mbarriers(2, arrivals=1, sync=False)
        q_ring = nv.Ring(1, bytes=Q.bytes + 8 * TILE_M, consumers=4 * CONSUMERS, sync=False)
        do_ring = nv.Ring(1, bytes=dO.bytes, consumers=4 * CONSUMERS, sync=False)
        nv.sync_threads()

        def place(whole_warp: bool) -> KeyTile:
            """The block's keys; each time anew rather than in registers."""
            return tiles.keys_of(recomputed(nv.block_id.x), whole_warp)

        def seeing(at: KeyTile) -> tuple[Any, Any, Any]:
            return tiles.seeing(at, left if bounded[0] else None, right if bounded[1] else None)

        leader = nv.lane_id() == 0

        def produce() -> None:
            """Load K and V, and Q and dO of the tiles of queries that see these keys."""
            at = place(False)
            (_, first, end), one = seeing(at), at.sequence
            state = q_ring.producer_state()
            loaded[0].arrive_expect_tx(V.bytes)
            v_tma.load(V, loaded[0], (one.k_batch, one.k_first + at.key, at.kv_head, 0))
            loaded[1].arrive_expect_tx(K.bytes)
            k_tma.load(K, loaded[1], (one.k_batch, one.k_first + at.key, at.kv_head, 0))
            for g in nv.range(tiles.group, unroll=False):
                head = at.kv_head * tiles.group + g
                number = tiles.first(at.number, one, head)
                for tile in nv.range(first, end, unroll=False):
                    place_of_q = one.q_batch, one.q_first + tile * TILE_M, head, 0
                    do_tma.load(dO, do_ring.acquire(state), place_of_q)
                    full = q_ring.acquire(state)
                    q_tma.load(Q, full, place_of_q)
                    nv.bulk_load(beside, sums.view((number + tile, 0), (1, 2 * TILE_M)), 8 * TILE_M, full)
                    state = state.next()

        def consume(me: Any) -> None:
            factor, cap = scale * LOG2_E, softcap * LOG2_E
            at = place(True)
            key, keys = at.key, at.sequence.keys
            offset, first, end = seeing(at)
            ragged = key + TILE_N > keys
            low = key + (TILE_N - 1) - offset - right if bounded[1] else nv.i32(-MOST)
            low = nv.select(ragged, MOST, low)  # rows from here on see all of the tile's keys
            high = key - offset + left if bounded[0] else None  # up to here
            state = q_ring.consumer_state()

            def anew(tile: Any) -> Any:
                """The tile, whose descriptors would else fill registers through the whole loop."""
                return tile.rows(recomputed(0), tile.layout.rows)

            def mine(tile: Any) -> Any:
                return tile.rows(recomputed(me) * 64, 64)

            def half(tile: Any) -> Any:
                columns = tile.shape[1] // CONSUMERS
                return tile.cols(recomputed(me) * columns, columns)

            def scores(state: Any) -> Any:
                """S = Q K^T and dP = dO V^T of this consumer's rows."""
                dp, s = nv.accumulator(64, TILE_N), nv.accumulator(64, TILE_N)
                do_ring.wait(state)
                dp += mine(dO) @ anew(V).T
                q_ring.wait(state)
                s += mine(Q) @ anew(K).T
                nv.named_barrier_sync(MET, 128 * CONSUMERS)  # both have read P and dS
                nv.wgmma_wait(0)
                return s, dp

            def masked(x: Any, row: Any) -> Any:
                """-infinity where a row does not see a key."""
                with recomputing():
                    own = row + recomputed(me) * 64 + offset
                    sees = x.cols + key < keys
                    if bounded[1]:
                        sees = sees & (x.rows + (own + right) >= x.cols + key)
                    if bounded[0]:
                        sees = sees & (x.rows + (own - left) <= x.cols + key)
                return nv.where(sees, x, -math.inf)

            def weigh(s: Any, dp: Any, row: Any) -> Any:
                """P and dS of this consumer's rows, in shared memory, and dS in registers."""
                logs = nv.row_vector(beside, me * 64, 64)
                dots = nv.row_vector(beside, TILE_M + me * 64, 64)
                x = (nv.math.tanh_approx(s * (scale / softcap)) * cap if capped else s * factor) - logs[:, None]
                if row < low if high is None else (row < low) | (row + (TILE_M - 1) > high):
                    x = masked(x, row)
                p = nv.math.exp2_approx(x)
                slope = p * (dp - dots[:, None])
                if capped:  # the tanh again, from its exponential: it would take registers to keep it
                    tanh = nv.clamp((nv.math.log2_approx(p) + logs[:, None]) * (1.0 / cap), -1.0, 1.0)
                    slope = slope * (1.0 - tanh * tanh)
                grad = slope.to(q.dtype)
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
                at = number * (parts.slices * parts.rows)
                nv.wgmma_wait(1)
                do_ring.release(state, leader)
                nv.wgmma_wait(0)
                q_ring.release(state, leader)
                if turns is not None:
                    before = nv.max(tile * TILE_M + offset - left, 0) // TILE_N if bounded[0] else 0
                    turn = key // TILE_N - before
                    if nv.warpgroup_thread() == 0:
                        while load_acquire(turns, number) != turn:
                            pass
                    nv.named_barrier_sync(STORED + me, 128)
                for i in nv.range(parts.slices, unroll=False):
                    part = nv.accumulator(64, COLUMNS)
                    part += grad @ anew(K).cols(i * COLUMNS, COLUMNS)
                    nv.wgmma_wait(0)
                    add_registers(part, total, at + i * parts.rows)
                if turns is not None:
                    nv.named_barrier_sync(STORED + me, 128)
                    if nv.warpgroup_thread() == 0:
                        nv.threadfence()
                        store_release(turns, number, turn + 1)
                return dk, dv

            grad_k, grad_v = nv.accumulator(64, size // 2), nv.accumulator(64, value_size // 2)
            loaded[0].wait(0)
            loaded[1].wait(0)
            for g in nv.range(nv.select(first < end, tiles.group, 0), unroll=False):
                number = tiles.first(at.number, at.sequence, at.kv_head * tiles.group + g)
                s, dp = scores(state)
                for tile in nv.range(first, end - 1, unroll=False):
                    grad = weigh(s, dp, tile * TILE_M)
                    grad_k, grad_v = spread(grad, grad_k, grad_v, state, tile, number + tile)
                    state = state.next()
                    s, dp = scores(state)
                grad = weigh(s, dp, (end - 1) * TILE_M)
                grad_k, grad_v = spread(grad, grad_k, grad_v, state, end - 1, number + end - 1)
                state = state.next()
                nv.named_barrier_sync(MET, 128 * CONSUMERS)

            at = place(True)
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
                produce()
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
