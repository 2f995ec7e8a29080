"""Attention backward: one producer warp, two warps that add up dQ, and two consumer warpgroups.

A block owns a tile of 128 keys. Its consumers hold dK and dV of 64 keys each in registers, and go over the tiles of
rows that see these keys. All scores are transposed, S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T are operands in
registers: dV += P^T dO and dK += dS^T Q. dS goes through shared memory, because dQ = dS K sums over the keys of both
consumers; each computes a part of dQ. It is added up in f32 in global memory by bulk reductions (Dao,
"FlashAttention-2", arXiv 2307.08691; Shah et al., "FlashAttention-3", arXiv 2407.08608).

A step keeps the tensor cores busy while it computes:

    dP = V dO      while it runs: P = exp(S - LSE)
    dV += P dO     while it runs: dS = P (dP - sum), and dS to shared memory
    dQ = dS K
    dK += dS Q     while it runs: dQ to shared memory
    S = K Q        of the next tile of rows
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.gradient_rows import (
    LOG2_E,
    Logarithms,
    OfKeys,
    OfRows,
    convert_rows,
    store_registers,
    sum_rows,
)
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.order import recomputed, recomputing

CONSUMERS = 2
TILE_N = 64 * CONSUMERS
WRITTEN, FREE, MET, STORED = 1, 3, 5, 6
"""Named barriers: a consumer's part of dQ is in shared memory, or may be; both consumers' dS are."""


MOST = 2**30
"""More rows than there are."""


@dataclass(frozen=True)
class Config:
    """``sizes``: of a head of q and k, and of v, in shared memory. ``tile_m``: rows of a tile of Q. ``stages``: tiles
    of Q, and of dO, in flight. A tile has 128 keys."""

    sizes: tuple[int, int] = (128, 128)
    tile_m: int = 64
    stages: int = 2


@dataclass(frozen=True)
class Parts:
    """The parts of a tile of dQ that the consumers compute: 64 rows each, 64 columns, or half of the columns."""

    tile_m: int
    size: int
    count: int = CONSUMERS
    slices: int = 1

    @property
    def transposed(self) -> bool:
        """Whether a consumer computes 64 columns, as rows: dQ^T = K^T dS^T."""
        return self.tile_m % 64 != 0

    @property
    def shape(self) -> tuple[int, int]:
        if self.transposed:
            return 64, self.tile_m
        return 64, self.size if self.tile_m == 64 * self.count else self.size // self.count

    @property
    def swizzle(self) -> int:
        """Of K: its panels are no wider than a part."""
        return 64 if self.shape[1] == 32 else 128

    @property
    def rows(self) -> int:
        """Rows of 256 f32 that a part has where it lies in the order of its registers."""
        return self.shape[0] * self.shape[1] // 256

    def of(self, tile: Any, me: nv.Int, part: int = 0) -> Any:
        """The part of a tile of dQ, with the part's shape."""
        if self.transposed:
            return tile.cols(recomputed(me) * 64, 64).T
        if self.tile_m == 64 * self.count:
            return tile.rows(me * 64, 64)
        return tile.cols(me * (self.size // self.count), self.size // self.count)

    def product(self, ds: Any, k: Any, me: nv.Int) -> Any:
        """The part's product of dS, a row of keys for each row, and K."""
        if self.transposed:
            return k.cols(recomputed(me) * 64, 64).T @ ds.T
        if self.tile_m == 64 * self.count:
            return ds.rows(me * 64, 64) @ k
        return ds @ k.cols(me * (self.size // self.count), self.size // self.count)


@nv.jit
def backward(
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
    config: Config,
    bounded: tuple[bool, bool] = (False, False),
    capped: bool = False,
    ordered: bool = False,
) -> None:
    """dQ, dK and dV of ``out = softmax(scale * q k^T) v``, whose logarithms of the sums are ``lse``.

    ``bounded``: whether a row sees at most ``left`` keys before its own, and ``right`` keys behind it. ``capped``:
    whether scores are ``softcap * tanh(scale * q k^T / softcap)``. ``ordered``: whether dQ is added up in the order of
    the keys.
    """
    (batch, rows, heads, _), (_, keys, kv_heads, _) = q.shape, k.shape
    tile_m, (size, value_size) = config.tile_m, config.sizes
    parts = Parts(tile_m, size)
    tiles, key_tiles, group = nv.cdiv(rows, tile_m), nv.cdiv(keys, TILE_N), heads // kv_heads
    offset = keys - rows

    sums = sum_rows(dout, out, lse, tile_m)
    total = nv.zeros((batch * heads * tiles * (parts.count * parts.rows), 256), nv.f32)
    turns = nv.zeros(batch * heads * tiles * parts.count, nv.i32) if ordered else None

    q_tma = nv.TMA(q, tile=(1, tile_m, 1, size), swizzle=128)
    k_tma, dk_tma = (nv.TMA(x, tile=(1, n, 1, size), swizzle=parts.swizzle) for x, n in ((k, TILE_N), (dk, 64)))
    do_tma, v_tma, dv_tma = (
        nv.TMA(x, tile=(1, n, 1, value_size), swizzle=128) for x, n in ((dout, tile_m), (v, TILE_N), (dv, 64))
    )
    total_tma = nv.TMA(total, tile=(parts.rows, 256))

    @nv.kernel(grid=batch * kv_heads * key_tiles, block=128 * (1 + CONSUMERS))
    def kernel() -> None:
        K = nv.smem((TILE_N, size), k.dtype, swizzle=parts.swizzle)
        V = nv.smem((TILE_N, value_size), v.dtype, swizzle=128)
        Q = nv.smem((config.stages, tile_m, size), q.dtype, swizzle=128)
        dO = nv.smem((config.stages, tile_m, value_size), dout.dtype, swizzle=128)
        dS = nv.smem((2, tile_m, TILE_N), q.dtype, swizzle=128)
        dQ = nv.smem((CONSUMERS, parts.rows, 256), nv.f32)
        beside = nv.smem(config.stages * 2 * tile_m, nv.f32)
        loaded = nv.Mbarriers(2, arrivals=1, sync=False)
        q_ring = nv.Ring(config.stages, bytes=Q.bytes + 8 * tile_m, consumers=4 * CONSUMERS, sync=False)
        do_ring = nv.Ring(config.stages, bytes=dO.bytes, consumers=4 * CONSUMERS, sync=False)
        nv.sync_threads()

        def place() -> tuple[Any, Any, Any]:
            """The block's first key, its head of K, and its batch; each time anew rather than in registers."""
            at = recomputed(nv.block_id.x)
            return at % key_tiles * TILE_N, at // key_tiles % kv_heads, at // (key_tiles * kv_heads)

        def seeing(key: Any) -> tuple[Any, Any]:
            """The first tile of rows that see these keys, and the one behind the last."""
            first, end = nv.i32(0), nv.i32(tiles)
            if bounded[1]:
                first = nv.min(nv.max(key - offset - right, 0) // tile_m, tiles)
            if bounded[0]:
                end = nv.min(nv.cdiv(nv.max(key + TILE_N - offset + left, 0), tile_m), tiles)
            return first, end

        leader = nv.lane_id() == 0

        def produce() -> None:
            """Load K and V, and Q and dO of the tiles of rows that see these keys."""
            key, kv_head, b = place()
            first, end = seeing(key)
            qs, ds = q_ring.producer_state(), do_ring.producer_state()
            loaded[0].arrive_expect_tx(K.bytes)
            k_tma.load(K, loaded[0], (b, key, kv_head, 0))
            loaded[1].arrive_expect_tx(V.bytes)
            v_tma.load(V, loaded[1], (b, key, kv_head, 0))
            for g in nv.range(group, unroll=False):
                head = kv_head * group + g
                for tile in nv.range(first, end, unroll=False):
                    row = (b * heads + head) * tiles + tile
                    full = q_ring.acquire(qs)
                    q_tma.load(Q[qs.stage], full, (b, tile * tile_m, head, 0))
                    nv.bulk_load(
                        beside.view((qs.stage * (2 * tile_m),), (2 * tile_m,)),
                        sums.view((row, 0), (1, 2 * tile_m)), 8 * tile_m, full)  # fmt: skip
                    do_tma.load(dO[ds.stage], do_ring.acquire(ds), (b, tile * tile_m, head, 0))
                    qs, ds = qs.next(), ds.next()

        def add_up(part: Any) -> None:
            """Add a consumer's part of dQ, each time that it is there, to what other blocks have added."""
            key, kv_head, b = place()
            first, end = seeing(key)
            for g in nv.range(group, unroll=False):
                head = kv_head * group + g
                for tile in nv.range(first, end, unroll=False):
                    if leader:
                        nv.bulk_wait_group(0, read=True)
                    nv.sync_warp()
                    nv.named_barrier_arrive(FREE + part, 160)
                    nv.named_barrier_sync(WRITTEN + part, 160)
                    if leader:
                        at = ((b * heads + head) * tiles + tile) * parts.count + part
                        if turns is not None:
                            before = nv.max(tile * tile_m + offset - left, 0) // TILE_N if bounded[0] else 0
                            turn = key // TILE_N - before
                            while load_acquire(turns, at) != turn:
                                pass
                        total_tma.reduce_add(dQ[part], (at * parts.rows, 0))
                        nv.bulk_commit_group()
                        if turns is not None:
                            nv.bulk_wait_group(0)
                            store_release(turns, at, turn + 1)
            if leader:
                nv.bulk_wait_group(0)

        def consume(me: Any) -> None:
            factor, cap = scale * LOG2_E, softcap * LOG2_E
            key, _, _ = place()
            first, end = seeing(key)
            ragged = key + TILE_N > keys
            low = key + (TILE_N - 1) - offset - right if bounded[1] else nv.i32(-MOST)
            low = nv.select(ragged, MOST, low)  # rows from here on see all of the tile's keys
            high = key - offset + left if bounded[0] else None  # up to here
            state = q_ring.consumer_state()

            def mine(tile: Any) -> Any:
                """This consumer's keys. Their descriptors would else fill registers through the whole loop."""
                return tile.rows(recomputed(me) * 64, 64)

            def scores(state: Any) -> Any:
                """S^T = K Q^T of a tile of rows, which is being computed."""
                q_ring.wait(state)
                s = nv.accumulator(64, tile_m)
                s += mine(K) @ Q[state.stage].T
                return s

            def masked(x: Any, row: Any) -> Any:
                """-infinity where a row does not see a key."""
                own = key + recomputed(me) * 64
                sees = x.rows + own < keys
                with recomputing():
                    if bounded[1]:
                        sees = sees & (x.cols + (row + offset + right) >= x.rows + own)
                    if bounded[0]:
                        sees = sees & (x.cols + (row + offset - left) <= x.rows + own)
                return nv.where(sees, x, -math.inf)

            def weigh(s: Any, dv: Any, state: Any, row: Any) -> Any:
                """From a tile's scores, which are being computed, to dV += P^T dO and dS."""
                do_ring.wait(state)
                dp = nv.accumulator(64, tile_m)
                dp += mine(V) @ dO[state.stage].T
                nv.wgmma_wait(1)
                at = state.stage * (2 * tile_m)
                logs = nv.column_vector(beside, at, tile_m)[None, :]
                x = (nv.math.tanh_approx(s * (scale / softcap)) * cap if capped else s * factor) - logs
                if row < low if high is None else (row < low) | (row + (tile_m - 1) > high):
                    x = masked(x, row)
                p = nv.math.exp2_approx(x)
                dv += p.to(q.dtype) @ dO[state.stage]
                nv.wgmma_wait(1)
                slope = p * (dp - nv.column_vector(beside, at + tile_m, tile_m)[None, :])
                if capped:  # the tanh again, from its exponential: it would take registers to keep it
                    logs = nv.column_vector(beside, at, tile_m)[None, :]
                    tanh = nv.clamp((nv.math.log2_approx(p) + logs) * (1.0 / cap), -1.0, 1.0)
                    slope = slope * (1.0 - tanh * tanh)
                grad = slope.to(q.dtype)
                grad.store(dS[state.stage].cols(recomputed(me) * 64, 64).T)
                nv.fence_proxy_async()
                nv.named_barrier_sync(MET, 128 * CONSUMERS)
                nv.wgmma_wait(0)
                do_ring.release(state, leader)
                return dv, grad

            def spread(grad: Any, dk: Any, state: Any) -> Any:
                """From a tile's dS to dQ += dS K and dK += dS^T Q, which is being computed."""
                part = nv.accumulator(*parts.shape)
                part += parts.product(dS[state.stage], K, recomputed(me))
                dk += grad @ Q[state.stage]
                nv.wgmma_wait(1)
                nv.named_barrier_sync(FREE + recomputed(me), 160)
                store_registers(part, dQ[recomputed(me)])
                nv.fence_proxy_async()
                nv.named_barrier_arrive(WRITTEN + recomputed(me), 160)
                return dk

            grad_k, grad_v = nv.accumulator(64, size), nv.accumulator(64, value_size)
            loaded[0].wait(0)
            loaded[1].wait(0)
            for _ in nv.range(nv.select(first < end, group, 0), unroll=False):
                grad_v, grad = weigh(scores(state), grad_v, state, first * tile_m)
                for tile in nv.range(first + 1, end, unroll=False):
                    grad_k = spread(grad, grad_k, state)
                    s = scores(state.next())
                    nv.wgmma_wait(1)
                    q_ring.release(state, leader)
                    state = state.next()
                    grad_v, grad = weigh(s, grad_v, state, tile * tile_m)
                grad_k = spread(grad, grad_k, state)
                nv.wgmma_wait(0)
                q_ring.release(state, leader)
                state = state.next()

            nv.named_barrier_sync(MET, 128 * CONSUMERS)  # both have read all of K
            key, kv_head, b = place()
            with recomputing():
                (grad_k * scale).store(mine(K))
                grad_v.store(mine(V))
            nv.fence_proxy_async()
            nv.named_barrier_sync(STORED + me, 128)
            if nv.warpgroup_thread() == 0:
                dk_tma.store(mine(K), (b, key + me * 64, kv_head, 0))
                dv_tma.store(mine(V), (b, key + me * 64, kv_head, 0))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0, read=True)

        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(24)
            if nv.warp_id() == 0:
                if nv.lane_id() == 0:
                    produce()
            elif nv.warp_id() <= CONSUMERS:
                add_up(nv.warp_id() - 1)
        else:
            nv.setmaxnreg_inc(240)
            consume(nv.warpgroup_id() - 1)

    kernel()
    convert_rows(total, dq, scale, parts)
