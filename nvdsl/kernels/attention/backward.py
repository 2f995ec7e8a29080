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
from nvdsl.kernels.attention.gradient_rows import LOG2_E, convert_rows, store_registers, sum_rows
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile, Logarithms, OfKeys, OfQueries
from nvdsl.kernels.attention.sequences import KeyStarts, Starts
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
    """The parts of a tile of dQ that the consumers compute: 64 rows each, or half of the columns."""

    tile_m: int
    size: int
    count: int = CONSUMERS
    slices: int = 1

    @property
    def by_rows(self) -> bool:
        return self.tile_m == 64 * self.count

    @property
    def shape(self) -> tuple[int, int]:
        return 64, self.size if self.by_rows else self.size // self.count

    @property
    def swizzle(self) -> int:
        """Of K: its panels are no wider than a part."""
        return 64 if self.shape[1] == 32 else 128

    @property
    def rows(self) -> int:
        """Rows of 256 f32 that a part has where it lies in the order of its registers."""
        return self.shape[0] * self.shape[1] // 256

    def place(self, me: nv.Int, part: int) -> tuple[nv.Int, nv.Int]:
        """A part's first row and column in a tile of dQ."""
        return (me * 64, 0) if self.by_rows else (0, me * self.shape[1])

    def of(self, tile: Any, me: nv.Int, part: int = 0) -> Any:
        """The part of a tile of dQ."""
        return tile.rows(me * 64, 64) if self.by_rows else tile.cols(me * self.shape[1], self.shape[1])

    def product(self, ds: Any, k: Any, me: nv.Int) -> Any:
        """The part's product of dS, a row of keys for each row, and K."""
        return ds.rows(me * 64, 64) @ k if self.by_rows else ds @ k.cols(me * self.shape[1], self.shape[1])


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
    tile_m, (size, value_size) = config.tile_m, config.sizes
    tiles, parts = GradientTiles(q, k, q_starts, k_starts, tile_m, TILE_N, any(bounded)), Parts(tile_m, size)

    packed = tiles.packed or tiles.packed_keys

    sums = sum_rows(dout, out, lse, tiles, tile_m)
    total = nv.zeros((tiles.count * (parts.count * parts.rows), 256), nv.f32)
    turns = nv.zeros(tiles.count * parts.count, nv.i32) if ordered else None

    q_tma = nv.TMA(q, tile=(1, tile_m, 1, size), swizzle=128)
    k_tma, dk_tma = (nv.TMA(x, tile=(1, n, 1, size), swizzle=parts.swizzle) for x, n in ((k, TILE_N), (dk, 64)))
    do_tma, v_tma, dv_tma = (
        nv.TMA(x, tile=(1, n, 1, value_size), swizzle=128) for x, n in ((dout, tile_m), (v, TILE_N), (dv, 64))
    )
    total_tma = nv.TMA(total, tile=(parts.rows, 256))

    @nv.kernel(grid=tiles.blocks, block=128 * (1 + CONSUMERS))
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
            qs, ds = q_ring.producer_state(), do_ring.producer_state()
            loaded[0].arrive_expect_tx(K.bytes)
            k_tma.load(K, loaded[0], (one.k_batch, one.k_first + at.key, at.kv_head, 0))
            loaded[1].arrive_expect_tx(V.bytes)
            v_tma.load(V, loaded[1], (one.k_batch, one.k_first + at.key, at.kv_head, 0))
            for g in nv.range(tiles.group, unroll=False):
                head = at.kv_head * tiles.group + g
                number = tiles.first(at.number, one, head)
                for tile in nv.range(first, end, unroll=False):
                    place_of_q = one.q_batch, one.q_first + tile * tile_m, head, 0
                    full = q_ring.acquire(qs)
                    q_tma.load(Q[qs.stage], full, place_of_q)
                    stats = sums.view((number + tile, 0), (1, 2 * tile_m))
                    nv.bulk_load(beside.view((qs.stage * (2 * tile_m),), (2 * tile_m,)), stats, 8 * tile_m, full)
                    do_tma.load(dO[ds.stage], do_ring.acquire(ds), place_of_q)
                    qs, ds = qs.next(), ds.next()

        def add_up(part: Any) -> None:
            """Add a consumer's part of dQ, each time that it is there, to what other blocks have added."""
            at = place(True)
            offset, first, end = seeing(at)
            for g in nv.range(tiles.group, unroll=False):
                number = tiles.first(at.number, at.sequence, at.kv_head * tiles.group + g)
                for tile in nv.range(first, end, unroll=False):
                    if leader:
                        nv.bulk_wait_group(0, read=True)
                    nv.sync_warp()
                    nv.named_barrier_arrive(FREE + part, 160)
                    nv.named_barrier_sync(WRITTEN + part, 160)
                    if leader:
                        mine = (number + tile) * parts.count + part
                        if turns is not None:
                            before = nv.max(tile * tile_m + offset - left, 0) // TILE_N if bounded[0] else 0
                            turn = at.key // TILE_N - before
                            while load_acquire(turns, mine) != turn:
                                pass
                        total_tma.reduce_add(dQ[part], (mine * parts.rows, 0))
                        nv.bulk_commit_group()
                        if turns is not None:
                            nv.bulk_wait_group(0)
                            store_release(turns, mine, turn + 1)
            if leader:
                nv.bulk_wait_group(0)

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
            for _ in nv.range(nv.select(first < end, tiles.group, 0), unroll=False):
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
            at = place(True)
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
            nv.setmaxnreg_dec(40 if packed else 24)  # a sequence is searched for
            if nv.warp_id() == 0:
                if nv.lane_id() == 0:
                    produce()
            elif nv.warp_id() <= CONSUMERS:
                add_up(nv.warp_id() - 1)
        else:
            nv.setmaxnreg_inc(232 if packed else 240)
            consume(nv.warpgroup_id() - 1)

    kernel()
    convert_rows(total, dq, scale, tiles, parts)
