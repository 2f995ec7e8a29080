# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --heads 1 --M 256 --N 320 --K 128 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""Attention 2: the ladder from one loop to FlashAttention-3, a rung for each idea.

Chapter 16 goes through tiles of keys, and everything waits for everything: the warpgroup for the tiles, the softmax for
the product, the next product for the softmax. Each rung of this kernel takes one of these waits away.

**1 roles.** A producer warp loads K and V through rings. Two consumer warpgroups have 64 rows each, and share the
tiles. While one computes exponentials, the other may multiply, if it so happens.

**2 overlap.** A step issues the scores of its tile, S = Q K(j)^T, and behind them the last step's O += P V(j-1). S is
there first (``wgmma_wait(1)``), and the softmax runs while the second product does. In the program, that is. ptxas
moves ``wgmma_wait(0)`` up, for nothing tells it that the exponentials come before; in machine code all of them stand
behind the wait, and overlap with nothing. ``nv.sched_barrier(total)`` names what is to be done first. The program
prints the exponentials in front of the wait without and with it.

**3 turns.** Both consumers would still multiply at the same time, and compute exponentials at the same time. With
``nv.Turns`` one issues its products while the other has its softmax (Shah et al., "FlashAttention-3").

**4 a queue.** Causal rows see unequally many keys. With a block for each tile, the last ones to start are alone at the
end. Here as many blocks as fit take tiles from `nv.TileQueue`, the longest rows first.

Try: ``NVDSL_DUMP=sass`` and look for MUFU.EX2 and WARPGROUP.DEPBAR; --K 128.

Next: the gradients, in ``chapters/attention/backward.py``. `nv.attention` is made of these rungs, and of choices that
the sizes of heads ask for (docs/attention.md). ``benchmarks/bench_attention_ladder.py`` times the rungs.

Break it: leave both products in flight.

    -                     nv.wgmma_wait(1)
    +                     nv.wgmma_wait(2)

    VerifyError: ladder.py:106: the accumulator is read while the wgmma at line 99 may be in flight: the wait at line
          141 leaves 2 groups in flight
      rule: the registers of an accumulator are not to be touched before a wgmma.wait_group that covers the wgmma's
            group (PTX ISA, wgmma.mma_async, wgmma.wait_group)
      fix:  nv.wgmma_wait(1) before the accumulator is read
"""

import math

import nvdsl as nv
from chapters.attention.heads import check
from nvdsl.errors import ToolchainError

RUNGS = ("roles", "overlap", "turns", "queue")
TILE_M, TILE_N = 128, 64


@nv.jit
def attention(q, k, v, o, *, rung=4, causal=False, ordered=True, blocks=132):
    """o = softmax(q k^T / sqrt(K)) v; q, o: [heads, M, K], k, v: [heads, N, K], f16 or bf16. ``rung``: 1 to 4.
    ``ordered``: the exponentials before the wait. ``blocks``: that take tiles from the queue."""
    (heads, M, K), N = q.shape, k.shape[1]
    nv.require_multiples(M=(M, TILE_M), N=(N, TILE_N), K=(K, 64))
    overlap, in_turns, queued = rung >= 2, rung >= 3, rung >= 4
    q_tma, o_tma = nv.TMA(q, tile=(1, TILE_M, K), swizzle=128), nv.TMA(o, tile=(1, 64, K), swizzle=128)
    k_tma, v_tma = (nv.TMA(x, tile=(1, TILE_N, K), swizzle=128) for x in (k, v))
    scale = math.log2(math.e) / math.sqrt(K)
    rows = M // TILE_M
    counter = nv.zeros(1, nv.i32) if queued else None

    @nv.kernel(grid=min(blocks, heads * rows) if queued else heads * rows, block=384)
    def kernel():
        Q = nv.smem((TILE_M, K), q.dtype, swizzle=128)
        Ks, Vs = (nv.smem((2, TILE_N, K), q.dtype, swizzle=128) for _ in "KV")
        q_ring = nv.Ring(1, bytes=Q.bytes, consumers=8, sync=False)
        k_ring, v_ring = (nv.Ring(2, bytes=Ks.bytes, consumers=8, sync=False) for _ in "KV")
        queue = nv.TileQueue(counter, heads * rows, readers=8, sync=False) if queued else None
        nv.sync_threads()
        turns = nv.Turns(2, barrier=3) if in_turns else None

        def place(number):
            """Head, first row and tiles of keys of a tile of rows: the longest ones first."""
            row = (rows - 1 - number // heads) * TILE_M
            tiles = N // TILE_N
            return number % heads, row, nv.min(tiles, (row + TILE_M + N - M) // TILE_N) if causal else nv.i32(tiles)

        def produce(number, states):
            qs, ks, vs = states
            head, row, tiles = place(number)
            q_tma.load(Q, q_ring.acquire(qs), (head, row, 0))
            for j in nv.range(tiles):
                k_tma.load(Ks[ks.stage], k_ring.acquire(ks), (head, j * TILE_N, 0))
                v_tma.load(Vs[vs.stage], v_ring.acquire(vs), (head, j * TILE_N, 0))
                ks, vs = ks.next(), vs.next()
            return qs.next(), ks, vs

        def consume(number, states, me):
            qs, ks, vs = states
            leader = nv.lane_id() == 0
            head, row, tiles = place(number)
            row = row + me * 64
            mine = Q.rows(me * 64, 64)

            def scores(ks):
                k_ring.wait(ks)
                s = nv.accumulator(64, TILE_N)
                s += mine @ Ks[ks.stage].T
                return s

            def softmax(s, j, m, total):
                """P, the new maxima and sums, and what O shrinks by."""
                if causal:
                    s = nv.where(s.rows + (row + N - M) >= s.cols + j * TILE_N, s, -math.inf)
                higher = nv.maximum(m, s.max(axis=1))
                p = nv.math.exp2_approx(s * scale - (higher * scale)[:, None])
                shrunk = nv.math.exp2_approx((m - higher) * scale)
                return p, higher, total * shrunk + p.sum(axis=1), shrunk

            out = nv.accumulator(64, K)
            m, total = nv.row_vector(-math.inf, 0, 64), nv.row_vector(0.0, 0, 64)
            q_ring.wait(qs)
            if not overlap:
                for j in nv.range(tiles):
                    s = scores(ks)
                    nv.wgmma_wait(0)
                    k_ring.release(ks, leader)
                    p, m, total, shrunk = softmax(s, j, m, total)
                    out = out * shrunk[:, None]
                    v_ring.wait(vs)
                    out += p.to(v.dtype) @ Vs[vs.stage]
                    nv.wgmma_wait(0)
                    v_ring.release(vs, leader)
                    ks, vs = ks.next(), vs.next()
            else:
                s = scores(ks)
                nv.wgmma_wait(0)
                k_ring.release(ks, leader)
                ks = ks.next()
                p, m, total, _ = softmax(s, 0, m, total)
                p = p.to(v.dtype)
                for j in nv.range(1, tiles):
                    if turns is not None:
                        turns.wait(me)
                    s = scores(ks)
                    v_ring.wait(vs)
                    out += p @ Vs[vs.stage]
                    if turns is not None:
                        turns.pass_on(me)
                    nv.wgmma_wait(1)
                    k_ring.release(ks, leader)
                    weights, m, total, shrunk = softmax(s, j, m, total)
                    if ordered:
                        nv.sched_barrier(total)
                    nv.wgmma_wait(0)
                    v_ring.release(vs, leader)
                    out, p = out * shrunk[:, None], weights.to(v.dtype)
                    ks, vs = ks.next(), vs.next()
                v_ring.wait(vs)
                out += p @ Vs[vs.stage]
                nv.wgmma_wait(0)
                v_ring.release(vs, leader)
                vs = vs.next()

            (out / total[:, None]).store(mine)  # this consumer's rows of Q have been read
            nv.fence_proxy_async()
            nv.named_barrier_sync(1 + me, 128)
            if nv.warpgroup_thread() == 0:
                o_tma.store(mine, (head, row, 0))
                nv.bulk_commit_group()
                nv.bulk_wait_group(0, read=True)
            nv.sync_warp()
            q_ring.release(qs, leader)
            return qs.next(), ks, vs

        number = nv.i32(nv.block_id.x)
        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(24)
            if nv.warpgroup_thread() == 0:
                states = [ring.producer_state() for ring in (q_ring, k_ring, v_ring)]
                if queue is None:
                    produce(number, states)
                else:
                    work = queue.begin()
                    while work.valid:
                        following = queue.draw(work)
                        states = list(produce(work.tile, states))
                        work = following
        else:
            nv.setmaxnreg_inc(240)
            me = nv.warpgroup_id() - 1
            states = [ring.consumer_state() for ring in (q_ring, k_ring, v_ring)]
            if turns is not None:
                turns.begin(me)
            if queue is None:
                consume(number, states, me)
            else:
                work = queue.begin()
                while work.valid:
                    states = list(consume(work.tile, states, me))
                    work = queue.next(work)
            if turns is not None:
                turns.end(me)

    kernel()


def before_the_wait(compiled):
    """Of the exponentials between two products of the main loop: how many stand before the wait for the second."""
    (kernel,) = compiled.kernels.values()
    lines = [line for line in kernel.sass().splitlines() if "MUFU.EX2" in line or "DEPBAR.LE gsb0" in line]
    text = "".join("x" if "EX2" in line else "1" if "0x1" in line else "0" for line in lines)
    return max((part.split("0")[0].count("x") for part in text.split("1")[1:]), default=0)


# CHECK: rung 1, roles: PASS
# CHECK: rung 2, overlap: PASS
# CHECK: rung 3, turns: PASS
# CHECK: rung 4, queue: PASS
# OTHER: rung 4, queue: PASS


def main(heads=2, M=256, N=256, K=64):
    for rung, name in enumerate(RUNGS, start=1):
        check(attention, heads, M, N, K, rung=rung, causal=rung == 4, blocks=3)
        print(f"rung {rung}, {name}: PASS")
    of_q, of_k = nv.ShapeDtype((heads, M, K), nv.f16), nv.ShapeDtype((heads, N, K), nv.f16)
    try:
        found = [before_the_wait(attention.compile(of_q, of_k, of_k, of_q, rung=2, ordered=o)) for o in (False, True)]
        print(f"exponentials that overlap with the second product: {found[0]}, and with sched_barrier {found[1]}")
    except ToolchainError as error:
        print(f"machine code: {error}")


if __name__ == "__main__":
    from chapters.command_line import run

    run(main)
