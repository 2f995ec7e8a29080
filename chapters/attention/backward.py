# RUN: %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --heads 1 --M 64 --N 192 --K 128 2>&1 | FileCheck %s %}
"""Attention 3: the gradients. Five products where there were two, and none of the scores in memory.

With P = softmax(S), S = scale * Q K^T and O = P V, and dO the gradient at O:

    dV = P^T dO      dP = dO V^T      dS = P * (dP - sums of O * dO)      dQ = scale * dS K      dK = scale * dS^T Q

P is not kept from the forward pass. It is computed again, and with the logarithms of the sums that the forward pass
kept it is one exponential: P = exp(S - LSE). The sums of O * dO are one number for each row, from a small kernel of
their own.

A block owns 64 keys, and goes over the rows. All scores are transposed, S^T = K Q^T and dP^T = V dO^T: so P^T and dS^T
lie in registers as A operands do, and dV += P^T dO and dK += dS^T Q sum in registers, too. What is left is dQ = dS K, a
sum over the keys of all blocks. dS goes to shared memory, where it is read the other way round (``.store(dS.T)`` is
stmatrix with .trans), and the block's part is added to dQ in f32 by atomics.

`nv.attention_backward` has two consumers and a producer, issues its products so that one is always in flight, and adds
dQ up by bulk reductions (docs/attention.md).

Try: --K 128, or more rows than keys.

Break it: forget what is asynchronous about shared memory.

    -             nv.fence_proxy_async()  # dS is written

    VerifyError: backward.py:115: wgmma's operand A reads shared memory that ordinary stores wrote at line 110, with no
          proxy fence in between
      rule: stores go through the generic proxy, TMA and wgmma read through the async proxy: each thread that stored
            orders the two with fence.proxy.async (PTX ISA, Async proxy, membar/fence)
      fix:  nv.fence_proxy_async() behind the stores, then nv.sync_threads()
"""

import math

import numpy as np

import nvdsl as nv
from chapters.attention.heads import random, weights

ROWS, KEYS = 64, 64


@nv.jit
def sums(o, do, out):
    """out[head, row] = the sum of o * do; a warp a row."""
    heads, M, K = o.shape

    @nv.kernel(grid=(heads, nv.cdiv(M, 4)), block=128)
    def kernel():
        head, row, lane = nv.block_id.x, nv.block_id.y * 4 + nv.warp_id(), nv.lane_id()
        if row < M:
            parts = [
                nv.f32(o[head, row, i]) * nv.f32(do[head, row, i]) for i in (lane + 32 * j for j in range(K // 32))
            ]
            total = nv.warp.sum(sum(parts[1:], parts[0]))
            if lane == 0:
                out[head, row] = total

    kernel()


@nv.jit
def gradients(q, k, v, do, lse, dots, dq, dk, dv, *, causal=False):
    """dk, dv, and dq on top of what it has. q, do: [heads, M, K], k, v, dk, dv: [heads, N, K]; dq like q, in f32."""
    (heads, M, K), N = q.shape, k.shape[1]
    nv.require_multiples(M=(M, ROWS), N=(N, KEYS), K=(K, 64))
    q_tma, do_tma = (nv.TMA(x, tile=(1, ROWS, K), swizzle=128) for x in (q, do))
    k_tma, v_tma, dk_tma, dv_tma = (nv.TMA(x, tile=(1, KEYS, K), swizzle=128) for x in (k, v, dk, dv))
    scale, log2_e = 1 / math.sqrt(K), math.log2(math.e)

    @nv.kernel(grid=(heads, N // KEYS), block=128)
    def kernel():
        Ks, Vs = (nv.smem((KEYS, K), k.dtype, swizzle=128) for _ in "KV")
        Q, dO = (nv.smem((2, ROWS, K), q.dtype, swizzle=128) for _ in ("Q", "dO"))
        dS = nv.smem((ROWS, KEYS), q.dtype, swizzle=128)
        full, ready = nv.Mbarriers(2, arrivals=1), nv.Mbarriers(1, arrivals=1)[0]
        head, key = nv.block_id.x, nv.block_id.y * KEYS
        first = nv.max(key + M - N, 0) // ROWS if causal else nv.i32(0)  # the rows before see none of these keys

        def load(j, slot):
            if nv.thread_id.x == 0:
                full[slot].arrive_expect_tx(2 * Q.bytes)
                q_tma.load(Q[slot], full[slot], (head, j * ROWS, 0))
                do_tma.load(dO[slot], full[slot], (head, j * ROWS, 0))

        if nv.thread_id.x == 0:
            ready.arrive_expect_tx(2 * Ks.bytes)
            k_tma.load(Ks, ready, (head, key, 0))
            v_tma.load(Vs, ready, (head, key, 0))
        load(first, nv.i32(0))
        ready.wait(0)

        grad_k, grad_v = nv.accumulator(KEYS, K), nv.accumulator(KEYS, K)
        for j in nv.range(first, M // ROWS):
            turn = j - first
            slot = turn % 2
            if j + 1 < M // ROWS:
                load(j + 1, (turn + 1) % 2)
            full[slot].wait((turn // 2) & 1)
            s, dp = nv.accumulator(KEYS, ROWS), nv.accumulator(KEYS, ROWS)
            s += Ks @ Q[slot].T
            dp += Vs @ dO[slot].T
            nv.wgmma_wait(0)
            logs = nv.column_vector(lse, (head, j * ROWS), ROWS)[None, :]
            p = nv.math.exp2_approx(s * (scale * log2_e) - logs * log2_e)
            if causal:
                p = nv.where(s.cols + (j * ROWS + N - M) >= s.rows + key, p, 0.0)
            ds = (p * (dp - nv.column_vector(dots, (head, j * ROWS), ROWS)[None, :])).to(q.dtype)
            ds.store(dS.T)
            grad_v += p.to(q.dtype) @ dO[slot]
            grad_k += ds @ Q[slot]
            nv.fence_proxy_async()  # dS is written
            nv.sync_threads()
            part = nv.accumulator(ROWS, K)
            part += dS @ Ks
            nv.wgmma_wait(0)
            found = list((part * scale).elements())
            for (row, col, a), (_, _, b) in zip(found[::2], found[1::2], strict=True):
                dq.atomic_add((head, j * ROWS + row, col), nv.vector([a, b]))
            nv.sync_threads()

        (grad_k * scale).store(Ks)  # nobody reads K and V any more
        grad_v.store(Vs)
        nv.fence_proxy_async()
        nv.sync_threads()
        if nv.thread_id.x == 0:
            dk_tma.store(Ks, (head, key, 0))
            dv_tma.store(Vs, (head, key, 0))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()


# CHECK: PASS


def main(heads=2, M=128, N=128, K=64):
    q, do = random(heads, M, K), random(heads, M, K, seed=3)
    k, v = random(heads, N, K, seed=1), random(heads, N, K, seed=2)
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    for causal in (False, True) if N >= M else (False,):
        p, lse = weights(q, k, causal)
        o = (p @ v.astype(np.float64)).astype(np.float16)
        lse, dots = lse.astype(np.float32), np.zeros((heads, M), np.float32)
        dq, dk, dv = np.zeros(q.shape, np.float32), np.zeros_like(k), np.zeros_like(v)
        sums(o, do, dots)
        gradients(q, k, v, do, lse, dots, dq, dk, dv, causal=causal)
        wide_q, wide_k, wide_v, wide_do = (x.astype(np.float64) for x in (q, k, v, do))
        ds = p * (wide_do @ wide_v.swapaxes(1, 2) - (o * wide_do).sum(2)[..., None]) / math.sqrt(K)
        expected = ds @ wide_k, ds.swapaxes(1, 2) @ wide_q, p.swapaxes(1, 2) @ wide_do
        for found, its in zip((dq, dk, dv), expected, strict=True):
            assert np.linalg.norm(found - its) < 2e-3 * np.linalg.norm(its)
    print("PASS")


if __name__ == "__main__":
    from chapters.command_line import run

    run(main)
