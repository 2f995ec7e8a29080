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

from dataclasses import dataclass
from typing import Any

import nvdsl as nv
from nvdsl.kernels.attention.forward import AS_THEY_ARE, Bias
from nvdsl.kernels.attention.gradient_config import Config
from nvdsl.kernels.attention.gradient_load import CONSUMERS, GradientLoads
from nvdsl.kernels.attention.gradient_rows import convert_rows, store_registers, sum_rows
from nvdsl.kernels.attention.gradient_scores import Weights
from nvdsl.kernels.attention.gradient_tiles import GradientTiles, KeyTile, Logarithms, OfKeys, OfQueries, Seeing
from nvdsl.kernels.attention.scores import ScoreKind
from nvdsl.kernels.attention.sequences import KeyStarts, Starts
from nvdsl.ops.memory import load_acquire, store_release
from nvdsl.ops.order import recomputed, recomputing

TILE_N = 64 * CONSUMERS
WRITTEN, FREE, MET, STORED = 1, 3, 5, 6
"""Named barriers: a consumer's part of dQ is in shared memory, or may be; both consumers' dS are."""


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
    """dQ, dK and dV of ``out = softmax(scale * q k^T) v``, whose logarithms of the sums are ``lse``.

    ``bounded``: whether a row sees at most ``left`` keys before its own, and ``right`` keys behind it. For ``scores``,
    ``softcap``, ``bias`` and ``operands`` see `Weights`. ``ordered``: whether dQ is added up in the order of the keys.
    """
    tile_m, (size, value_size) = config.tile_m, config.sizes
    tiles, parts = GradientTiles(q, k, q_starts, k_starts, tile_m, TILE_N, any(bounded)), Parts(tile_m, size)
    packed = tiles.packed or tiles.packed_keys

    sums = sum_rows(dout, out, lse, tiles, tile_m)
    total = nv.zeros((tiles.count * (parts.count * parts.rows), 256), nv.f32)
    turns = nv.zeros(tiles.count * parts.count, nv.i32) if ordered else None

    loads = GradientLoads(dout, q, k, v, sums, tiles, config, parts.swizzle)
    dk_tma = nv.TMA(dk, tile=(1, 64, 1, size), swizzle=parts.swizzle)
    dv_tma = nv.TMA(dv, tile=(1, 64, 1, value_size), swizzle=128)
    total_tma = nv.TMA(total, tile=(parts.rows, 256))

    @nv.kernel(grid=tiles.blocks, block=128 * (1 + CONSUMERS))
    def kernel() -> None:
        loads.allocate()
        K, V, Q, dO, q_ring, do_ring = loads.K, loads.V, loads.Q, loads.dO, loads.q_ring, loads.do_ring
        dS = nv.smem((2, tile_m, TILE_N), q.dtype, swizzle=128)
        dQ = nv.smem((CONSUMERS, parts.rows, 256), nv.f32)
        nv.sync_threads()

        def place(whole_warp: bool) -> tuple[KeyTile, Seeing]:
            """The block's keys; each time anew rather than in registers."""
            at = tiles.keys_of(recomputed(nv.block_id.x), whole_warp)
            return at, Seeing(tiles, at, left if bounded[0] else None, right if bounded[1] else None)

        leader = nv.lane_id() == 0

        def add_up(part: Any) -> None:
            """Add a consumer's part of dQ, each time that it is there, to what other blocks have added."""
            at, sight = place(True)
            for g in nv.range(tiles.group, unroll=False):
                number = tiles.first(at.number, at.sequence, at.kv_head * tiles.group + g)
                for tile in nv.range(sight.first, sight.end, unroll=False):
                    if leader:
                        nv.bulk_wait_group(0, read=True)
                    nv.sync_warp()
                    nv.named_barrier_arrive(FREE + part, 160)
                    nv.named_barrier_sync(WRITTEN + part, 160)
                    if leader:
                        mine = (number + tile) * parts.count + part
                        if turns is not None:
                            before = nv.max(tile * tile_m + sight.offset - left, 0) // TILE_N if bounded[0] else 0
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
            at, sight = place(True)
            weights = Weights(scores, at, scale, softcap, bias, operands)
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

            def weigh(s: Any, dv: Any, state: Any, row: Any, head: Any) -> Any:
                """From a tile's scores, which are being computed, to dV += P^T dO and dS."""
                do_ring.wait(state)
                dp = nv.accumulator(64, tile_m)
                dp += mine(V) @ dO[state.stage].T
                nv.wgmma_wait(1)
                own = at.key + recomputed(me) * 64
                logs, dots = loads.beside_rows(state.stage)
                x = weights.logarithms(s, lambda key, query: (head, row + query, own + key)) - column(logs)
                if sight.partly(row):
                    x = sight.hide(x, own, row, transposed=True)
                p = nv.math.exp2_approx(x)
                dv += p.to(q.dtype) @ dO[state.stage]
                nv.wgmma_wait(1)
                grad = weights.slopes(p, dp - column(dots), s, lambda: column(logs)).to(q.dtype)
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
            loads.wait_for_keys()
            first, end = sight.first, sight.end
            for g in nv.range(nv.select(first < end, tiles.group, 0), unroll=False):
                head = at.kv_head * tiles.group + g
                grad_v, grad = weigh(begun(state), grad_v, state, first * tile_m, head)
                for tile in nv.range(first + 1, end, unroll=False):
                    grad_k = spread(grad, grad_k, state)
                    s = begun(state.next())
                    nv.wgmma_wait(1)
                    q_ring.release(state, leader)
                    state = state.next()
                    grad_v, grad = weigh(s, grad_v, state, tile * tile_m, head)
                grad_k = spread(grad, grad_k, state)
                nv.wgmma_wait(0)
                q_ring.release(state, leader)
                state = state.next()

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
            nv.setmaxnreg_dec(40 if packed else 24)  # a sequence is searched for
            if nv.warp_id() == 0:
                if nv.lane_id() == 0:
                    loads.produce(*place(False))
            elif nv.warp_id() <= CONSUMERS:
                add_up(nv.warp_id() - 1)
        else:
            nv.setmaxnreg_inc(232 if packed else 240)
            consume(nv.warpgroup_id() - 1)

    kernel()
    convert_rows(total, dq, scale, tiles, parts)
