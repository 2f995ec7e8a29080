# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --heads 1 --M 64 --N 176 --K 128 2>&1 | FileCheck %s %}
"""Attention 1: one tile. All keys of a head fit into one tile, and the softmax sees the whole row at once.

A block takes 64 rows of a head's Q, and all of its K and V: S = Q K^T is one accumulator of 64 x N, which a warpgroup
holds in registers, N / 2 in each thread. So the softmax is what it is in a book: the maximum of a row, exponentials,
their sum. The exponentials, rounded to f16, are the A operand of the second product, and O is divided by the sums at
the end, 64 x K numbers rather than 64 x N.

It is as fast as it can be wrong: with more than 256 keys there is no such accumulator (PTX ISA, wgmma: N is at most
256). Chapter 16 goes through the keys in tiles, and keeps the row's maximum and sum while it does: the next step of
this way.

Try: --N 248, where K and V have 248 rows each; --K 64 and --K 128.

Next: who loads and who multiplies, in ``chapters/attention/ladder.py``.

Break it: take the exponentials before the product is there.

    -         nv.wgmma_wait(0)  # S is there

    VerifyError: one_tile.py:58: the accumulator is read while the wgmma at line 55 may be in flight: nothing waits for
          it
      rule: the registers of an accumulator are not to be touched before a wgmma.wait_group that covers the wgmma's
            group (PTX ISA, wgmma.mma_async, wgmma.wait_group)
      fix:  nv.wgmma_wait(0) before the accumulator is read
"""

import math

import nvdsl as nv
from chapters.attention.heads import check


@nv.jit
def attention(q, k, v, o, *, causal=False):
    """o = softmax(q k^T / sqrt(K)) v; q, o: [heads, M, K], k, v: [heads, N, K], f16 or bf16; N is at most 256."""
    (heads, M, K), N = q.shape, k.shape[1]
    nv.require_multiples(M=(M, 64), N=(N, 8), K=(K, 64))
    q_tma, k_tma, v_tma, o_tma = (nv.TMA(x, tile=(1, n, K), swizzle=128) for x, n in ((q, 64), (k, N), (v, N), (o, 64)))
    scale = math.log2(math.e) / math.sqrt(K)

    @nv.kernel(grid=(heads, M // 64), block=128)
    def kernel():
        Q, Ks, Vs = (nv.smem((n, K), q.dtype, swizzle=128) for n in (64, N, N))
        loaded = nv.Mbarriers(1, arrivals=1)[0]
        head, row = nv.block_id.x, nv.block_id.y * 64
        if nv.thread_id.x == 0:
            loaded.arrive_expect_tx(Q.bytes + Ks.bytes + Vs.bytes)
            for load, tile, start in ((q_tma, Q, row), (k_tma, Ks, 0), (v_tma, Vs, 0)):
                load.load(tile, loaded, (head, start, 0))
        loaded.wait(0)

        s = nv.accumulator(64, N)
        s += Q @ Ks.T
        nv.wgmma_wait(0)  # S is there
        if causal:
            s = nv.where(s.rows + (row + N - M) >= s.cols, s, -math.inf)
        p = nv.math.exp2_approx(s * scale - (s.max(axis=1) * scale)[:, None])
        total = p.sum(axis=1)
        out = nv.accumulator(64, K)
        out += p.to(v.dtype) @ Vs
        nv.wgmma_wait(0)

        (out / total[:, None]).store(Q)  # nobody reads Q any more
        nv.fence_proxy_async()
        nv.sync_threads()
        if nv.thread_id.x == 0:
            o_tma.store(Q, (head, row, 0))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()


# CHECK: 128 threads
# CHECK: PASS


def main(heads=2, M=128, N=128, K=64):
    check(attention, heads, M, N, K)
    check(attention, heads, min(M, N // 64 * 64), N, K, causal=True)
    print("PASS")


if __name__ == "__main__":
    from chapters.command_line import run

    run(main)
