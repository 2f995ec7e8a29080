# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 128 --N 200 --K 64 --tile 128x80 2>&1 | FileCheck %s --check-prefix=OTHER %}
"""Chapter 16: two chained products with a softmax between them, O = softmax(scale * Q @ K^T) @ V: attention.

The scores S = Q K^T of 8192 rows and keys are 64 million numbers, and each is used once. Here they never leave the
registers. A block takes some rows of Q and goes through K and V, a tile of keys at a time. The softmax needs the whole
row, its maximum and its sum; but both can be kept while reading, as in chapter 11:

    S = scale * Q K(j)^T                    wgmma, both operands in shared memory
    m' = max(m, the rows' maxima of S)
    P = exp2(S - m'), l = l * exp2(m - m') + the rows' sums of P
    O = O * exp2(m - m') + P V(j)           wgmma, P in registers

What is new: the A operand in registers. The registers of an accumulator, converted to f16 and packed in pairs, are
those of an A operand (PTX ISA, wgmma, register fragments). So ``p.to(nv.f16) @ V`` is a product, and nothing is moved
between threads. The rest is docs/fragments.md: rows and columns of the scores hide the keys behind the diagonal
(``causal``), and a reduction along a row is two shuffles.

A power of two is one instruction, so the factor between the logarithms is part of ``scale``. What is missing for speed
is that the exponentials overlap with the products: nvdsl/kernels/attention/forward.py has a producer warp, two
consumers in turns, and the second product of a step in flight during the softmax of the next.

Try: --tile 128x64, so that a thread has two blocks of 64 rows; --N 200, which leaves the last tile half empty.

Next: who has what of an array, said once. Chapter 17 is a norm.

Break it: use P while the first product may still write S.

    -             nv.wgmma_wait(0)  # S is there
    +             nv.wgmma_wait(1)  # S is there

    VerifyError: ch16_online_softmax.py:89: the accumulator is read while the wgmma at line 86 may be in flight: the
          wait at line 87 leaves 1 group in flight
      rule: the registers of an accumulator are not to be touched before a wgmma.wait_group that covers the wgmma's
            group (PTX ISA, wgmma.mma_async, wgmma.wait_group)
      fix:  nv.wgmma_wait(0) before the accumulator is read
"""

import math

import numpy as np

import nvdsl as nv


@nv.jit
def attention(q, k, v, o, *, causal=True, tile=(64, 64)):
    """o = softmax(q @ k^T / sqrt(D)) @ v; q, o: [M, D], k, v: [N, D], f16 or bf16. ``causal``: row i, keys 0 to i."""
    (M, D), (N, _) = q.shape, k.shape
    BM, BN = tile
    nv.require_multiples(M=(M, BM), D=(D, 64))
    q_tma, o_tma = (nv.TMA(x, tile=(BM, D), swizzle=128) for x in (q, o))
    k_tma, v_tma = (nv.TMA(x, tile=(BN, D), swizzle=128) for x in (k, v))
    scale = math.log2(math.e) / math.sqrt(D)

    @nv.kernel(grid=M // BM, block=128)
    def kernel():
        Q = nv.smem((BM, D), q.dtype, swizzle=128)
        K, V = (nv.smem((2, BN, D), q.dtype, swizzle=128) for _ in "KV")
        full, ready = nv.Mbarriers(2, arrivals=1), nv.Mbarriers(1, arrivals=1)[0]
        row = nv.block_id.x * BM
        tiles = nv.i32(nv.cdiv(N, BN))
        if causal:
            tiles = nv.min(tiles, (row + BM + BN - 1) // BN)

        def load(j):
            if nv.thread_id.x == 0:
                full[j % 2].arrive_expect_tx(2 * K.bytes)
                k_tma.load(K[j % 2], full[j % 2], (j * BN, 0))
                v_tma.load(V[j % 2], full[j % 2], (j * BN, 0))

        if nv.thread_id.x == 0:
            ready.arrive_expect_tx(Q.bytes)
            q_tma.load(Q, ready, (row, 0))
        load(nv.i32(0))
        ready.wait(0)

        # Mainloop
        out = nv.accumulator(BM, D)
        m, total = nv.row_vector(-math.inf, 0, BM), nv.row_vector(0.0, 0, BM)
        for j in nv.range(tiles):
            if j + 1 < tiles:
                load(j + 1)
            full[j % 2].wait((j // 2) & 1)
            s = nv.accumulator(BM, BN)
            s += Q @ K[j % 2].T
            nv.wgmma_wait(0)  # S is there
            key = s.cols + j * BN
            s = nv.where(key < N, s * scale, -math.inf)
            if causal:
                s = nv.where(s.rows + row >= key, s, -math.inf)
            higher = nv.maximum(m, s.max(axis=1))
            p = nv.math.exp2_approx(s - higher[:, None])
            shrunk = nv.math.exp2_approx(m - higher)
            total = total * shrunk + p.sum(axis=1)
            out = out * shrunk[:, None]
            out += p.to(v.dtype) @ V[j % 2]
            m = higher
            nv.wgmma_wait(0)  # O is there, and V has been read
            nv.sync_threads()

        # Epilogue
        (out / total[:, None]).store(Q)  # nobody reads Q any more
        nv.fence_proxy_async()
        nv.sync_threads()
        if nv.thread_id.x == 0:
            o_tma.store(Q, (row, 0))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()


# CHECK-LABEL: func.func @attention
# CHECK:         gpu.launch blocks
# Carried: two registers each for the maxima and the sums, and the accumulator.
# CHECK:           scf.for {{.*}} -> (f32, f32, !llvm.struct<{{.*}}>, f32, f32) : i32 {
# CHECK:             nvvm.wgmma.mma_async
# CHECK:             nvvm.wgmma.wait.group.sync.aligned 0
# CHECK:             arith.maxnumf
# CHECK:             nvvm.shfl.sync bfly
# CHECK:             nvvm.ex2
# CHECK:             nvvm.convert.f32x2.to.f16x2
# CHECK:             wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
# CHECK:           nvvm.stmatrix
# OTHER: 128 threads
# OTHER: PASS


def main(M=256, N=256, K=64, tile=(64, 64)):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((rows, K)).astype(np.float16) for rows in (M, N, N))
    o = np.zeros((M, K), np.float16)
    print(attention.compile(q, k, v, o, tile=tile).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    attention(q, k, v, o, tile=tile)
    s = (q.astype(np.float64) @ k.astype(np.float64).T) / math.sqrt(K)
    s = np.where(np.arange(N) <= np.arange(M)[:, None], s, -np.inf)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    np.testing.assert_allclose(o, p / p.sum(axis=1, keepdims=True) @ v.astype(np.float64), rtol=4e-3, atol=4e-3)
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
