"""Attention backward for wide heads, whose dK and dV of 128 keys would not fit into registers.

A block owns a tile of 64 keys. Each of its two consumer warpgroups computes the scores of 64 rows of a tile of 128, and
adds up half of the columns of dK and dV, for which P and dS go through shared memory. dS is an operand in registers
where dQ = dS K; dQ is added up in f32 in global memory straight from registers.
"""

from __future__ import annotations

import math
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_rows import LOG2_E, Logarithms, OfKeys, OfRows, convert_rows, sum_rows
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

    def of(self, tile: Any, me: nv.Int, part: int) -> Any:
        return tile.rows(me * 64, 64).cols(part * COLUMNS, COLUMNS)


@nv.jit
def backward_wide(
    dout: OfRows,
    q: OfRows,
    k: OfKeys,
    v: OfKeys,
    out: OfRows,
    lse: Logarithms,
    dq: OfRows,
    dk: OfKeys,
    dv: OfKeys,
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
    (batch, rows, heads, _), (_, keys, kv_heads, _) = q.shape, k.shape
    size, value_size = (-(-x.shape[3] // 128) * 128 for x in (q, v))
    parts = Parts(size)
    tiles, key_tiles, group = nv.cdiv(rows, TILE_M), nv.cdiv(keys, TILE_N), heads // kv_heads
    offset = keys - rows

    sums = sum_rows(dout, out, lse, TILE_M)
    total = nv.zeros((batch * heads * tiles * (parts.count * parts.slices * parts.rows), 256), nv.f32)

    turns = nv.zeros(batch * heads * tiles * parts.count, nv.i32) if ordered else None

    q_tma, k_tma = (nv.TMA(x, tile=(1, n, 1, size), swizzle=128) for x, n in ((q, TILE_M), (k, TILE_N)))
    do_tma, v_tma = (nv.TMA(x, tile=(1, n, 1, value_size), swizzle=128) for x, n in ((dout, TILE_M), (v, TILE_N)))
    dk_tma = nv.TMA(dk, tile=(1, TILE_N, 1, size // 2), swizzle=128)
    dv_tma = nv.TMA(dv, tile=(1, TILE_N, 1, value_size // 2), swizzle=128)

    @nv.kernel(grid=batch * kv_heads * key_tiles, block=128 * (1 + CONSUMERS))
    def kernel() -> None:
        K, V = nv.smem((TILE_N, size), k.dtype, swizzle=128), nv.smem((TILE_N, value_size), v.dtype, swizzle=128)
        Q, dO = nv.smem((TILE_M, size), q.dtype, swizzle=128), nv.smem((TILE_M, value_size), q.dtype, swizzle=128)
        P, dS = nv.smem((TILE_M, TILE_N), q.dtype, swizzle=128), nv.smem((TILE_M, TILE_N), q.dtype, swizzle=128)
        beside = nv.smem(2 * TILE_M, nv.f32)
        loaded = nv.Mbarriers(2, arrivals=1, sync=False)
        q_ring = nv.Ring(1, bytes=Q.bytes + 8 * TILE_M, consumers=4 * CONSUMERS, sync=False)
        do_ring = nv.Ring(1, bytes=dO.bytes, consumers=4 * CONSUMERS, sync=False)
        nv.sync_threads()

        def place() -> tuple[Any, Any, Any]:
            """The block's first key, its head of K, and its batch; each time anew rather than in registers."""
            at = recomputed(nv.block_id.x)
            return at % key_tiles * TILE_N, at // key_tiles % kv_heads, at // (key_tiles * kv_heads)

        def seeing(key: Any) -> tuple[Any, Any]:
            """The first tile of rows that see these keys, and the one behind the last."""
            first, end = nv.i32(0), nv.i32(tiles)
            if bounded[1]:
                first = nv.min(nv.max(key - offset - right, 0) // TILE_M, tiles)
            if bounded[0]:
                end = nv.min(nv.cdiv(nv.max(key + TILE_N - offset + left, 0), TILE_M), tiles)
            return first, end

        leader = nv.lane_id() == 0

        def produce() -> None:
            """Load K and V, and Q and dO of the tiles of rows that see these keys."""
            key, kv_head, b = place()
            first, end = seeing(key)
            state = q_ring.producer_state()
            loaded[0].arrive_expect_tx(V.bytes)
            v_tma.load(V, loaded[0], (b, key, kv_head, 0))
            loaded[1].arrive_expect_tx(K.bytes)
            k_tma.load(K, loaded[1], (b, key, kv_head, 0))
            for g in nv.range(group, unroll=False):
                head = kv_head * group + g
                for tile in nv.range(first, end, unroll=False):
                    do_tma.load(dO, do_ring.acquire(state), (b, tile * TILE_M, head, 0))
                    full = q_ring.acquire(state)
                    row = (b * heads + head) * tiles + tile
                    q_tma.load(Q, full, (b, tile * TILE_M, head, 0))
                    nv.bulk_load(beside, sums.view((row, 0), (1, 2 * TILE_M)), 8 * TILE_M, full)
                    state = state.next()

        def consume(me: Any) -> None:
            factor, cap = scale * LOG2_E, softcap * LOG2_E
            key, kv_head, b = place()
            first, end = seeing(key)
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

            def spread(grad: Any, dk: Any, dv: Any, state: Any, head: Any, tile: Any) -> Any:
                """dV += P^T dO, dK += dS^T Q and dQ += dS K."""
                dv += anew(P).T @ half(dO)
                dk += anew(dS).T @ half(Q)
                number = ((b * heads + head) * tiles + tile) * parts.count + me
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
            for g in nv.range(nv.select(first < end, group, 0), unroll=False):
                head = kv_head * group + g
                s, dp = scores(state)
                for tile in nv.range(first, end - 1, unroll=False):
                    grad = weigh(s, dp, tile * TILE_M)
                    grad_k, grad_v = spread(grad, grad_k, grad_v, state, head, tile)
                    state = state.next()
                    s, dp = scores(state)
                grad = weigh(s, dp, (end - 1) * TILE_M)
                grad_k, grad_v = spread(grad, grad_k, grad_v, state, head, end - 1)
                state = state.next()
                nv.named_barrier_sync(MET, 128 * CONSUMERS)

            with recomputing():
                (grad_k * scale).store(half(K))
                grad_v.store(half(V))
            nv.fence_proxy_async()
            nv.named_barrier_sync(STORED + me, 128)
            if nv.warpgroup_thread() == 0:
                key, kv_head, b = place()
                dk_tma.store(half(K), (b, key, kv_head, me * (size // 2)))
                dv_tma.store(half(V), (b, key, kv_head, me * (value_size // 2)))
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
    convert_rows(total, dq, scale, parts)


def add_registers(fragment: Any, total: nv.Array, start: nv.Int) -> None:
    """Add a warpgroup's fragment to ``total`` from row ``start`` on, in the order of its registers."""
    (registers,) = fragment.registers()
    thread = nv.warpgroup_thread()
    for i in range(0, len(registers), 4):
        total.atomic_add((start + thread // 64 + i // 2, thread % 64 * 4), nv.vector(registers[i : i + 4]))
