# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 512 --N 128 --K 128 --stages 3 --tile 128x128x64 --cluster 4 2>&1 \
# RUN:   | FileCheck %s --check-prefix=OTHER %}
"""Chapter 8: clusters. Two blocks share a tile of B, and each loads half of it, for both.

Two blocks of a *cluster* run at the same time on neighbouring SMs and can write into each other's shared memory. Blocks
0 and 1 here take two tiles one above the other: different rows of A, the same columns of B.

    block 0   A rows   0..127    first half of B's slice   -- multicast --> blocks 0 and 1
    block 1   A rows 128..255    second half               -- multicast --> blocks 0 and 1

Each SM asks L2 for 16 + 16 KB a slice instead of 16 + 32. What that takes:

- A slot may be refilled when the consumers of *both* blocks have released it, for each producer writes into both. So a
  consumer warp arrives at both blocks' empty barriers (`mapa` finds the other's).
- That arrival is *relaxed*. An arrival that releases writes to the cluster is a full memory barrier on sm_90
  (MEMBAR.ALL.GPU): with it this kernel ran at 0.72 of cuBLAS, without it at 1.00. There are no writes to release here:
  the arrival says that wgmma has read, and the wait before it has seen to that.
- Each block's full barrier still expects all of its own A and B, whoever sends them.
- No block ends while the other may write into its shared memory or arrive at its barriers: `cluster_sync` at the end.

In the simulator block 0 looks like docs/pictures/ch8_slots.svg: a slot is full when the parts of both blocks are there.

What is new: ``cluster=``, `nv.cluster_rank`, ``multicast_mask``, ``ring.release(..., rank=)``, `nv.cluster_sync`.

Measured on an H200 at M = N = K = 8192: 755 TFLOPS, 1.01 of cuBLAS beside it. Clusters do not pay here: what blocks ask
for at the same time is merged on its way to L2 without them, and clusters are placed differently.

Try: --cluster 4 (at most 120 of the 132 SMs hold clusters of 4: --blocks 120); ``consumers=4 * consumers`` for the ring
(a VerifyError: the warps of both blocks arrive).

Next: both consumers still store at the same time, and nobody multiplies then. Chapter 9 lets them take turns.

Break it: let a block end when its own work is done.

    -         nv.cluster_sync()  # nobody leaves while others write here

    SimError: ch8_cluster_gemm.py:121: warp 4 of block 1 comes to the shared memory of block 0, and nothing says that
          this one has not returned
      rule: a block's shared memory is there until it returns; the others of its cluster may still come (CUDA
            programming guide, Distributed shared memory)
      fix:  nv.cluster_sync() at the kernel's end, or a wait here for the phase of what arrives

A consumer's last releases go to both blocks. If the other one has returned, its shared memory is gone, or belongs to
the next block on that SM.
"""

import sys
from pathlib import Path

import numpy as np

import nvdsl as nv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also when it is run as a program
from chapters.ch6_tma_store_gemm import store


@nv.jit
def gemm(a, b, d, *, stages=4, tile=(128, 256, 64), consumers=2, blocks=132, group=4, cluster=2):
    """d[M, N] = a[M, K] @ b[K, N]; f16 in, f32 sums, f16 out."""
    (M, K), (_, N) = a.shape, b.shape
    BM, BN, BK = tile
    nv.require_multiples(M=(M, BM * cluster), N=(N, BN))
    nv.require(stages >= 2, f"stages = {stages}", rule="a slot is refilled while the next one is multiplied")
    nv.require(BM == 64 * consumers, f"{BM} rows for {consumers} consumers", rule="each consumer sums 64 rows")
    nv.require(BN % 128 == 0, f"{BN} columns", rule="pieces of 64 take turns in two buffers, tile after tile")
    steps, rows, cols = nv.cdiv(K, BK), M // (BM * cluster), N // BN
    tiles, group = rows * cols, min(group, rows)  # tiles of a whole cluster
    part = BK // cluster  # rows of B's slice that one block loads
    a_tma = nv.TMA(a, tile=(BM, BK), swizzle=128)
    b_tma = nv.TMA(b, tile=(part, BN), swizzle=128)
    d_tma = nv.TMA(d, tile=(64, 64), swizzle=128)
    everyone = (1 << cluster) - 1

    def place(t):
        """First row and column of tile ``t``: groups of ``group`` rows of tiles, in a group column by column."""
        band, within = t // (group * cols), t % (group * cols)
        first = band * group
        height = group if rows % group == 0 else nv.min(group, rows - first)
        return (first + within % height) * (BM * cluster), (within // height) * BN

    @nv.kernel(grid=blocks, block=128 * (1 + consumers), cluster=cluster)
    def kernel():
        A = nv.smem((stages, BM, BK), a.dtype, swizzle=128)
        B = nv.smem((stages, BK, BN), b.dtype, swizzle=128)
        D = nv.smem((2 * consumers, 64, 64), d.dtype, swizzle=128)
        ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=4 * consumers * cluster, sync=False)
        nv.cluster_sync()  # the barriers of all blocks are ready
        rank = nv.cluster_rank()
        first, step = nv.block_id.x // cluster, blocks // cluster
        warpgroup = nv.warpgroup_id()

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(40)
            if nv.warpgroup_thread() == 0:
                state = ring.producer_state()
                for t in nv.range(first, tiles, step):
                    row, col = place(t)
                    for k in nv.range(steps):
                        full = ring.acquire(state)
                        a_tma.load(A[state.stage], full, (row + rank * BM, k * BK))
                        mine = B[state.stage].rows(rank * part, part)
                        b_tma.load(mine, full, (k * BK + rank * part, col), multicast_mask=everyone)
                        state = state.next()
        else:  # consumers
            nv.setmaxnreg_inc(232)
            consumer, lane = warpgroup - 1, nv.lane_id()
            state = ring.consumer_state()
            for t in nv.range(first, tiles, step):
                row, col = place(t)
                acc = nv.accumulator(64, BN, nv.f32)  # straight-line: the first product starts the sum
                ring.wait(state)
                acc += A[state.stage].rows(consumer * 64, 64) @ B[state.stage]
                previous = state
                state = state.next()
                for _ in nv.range(1, steps, unroll=False):
                    ring.wait(state)
                    acc += A[state.stage].rows(consumer * 64, 64) @ B[state.stage]
                    nv.wgmma_wait(1)
                    ring.release(previous, lane < cluster, rank=lane)  # lane i tells block i
                    previous = state
                    state = state.next()
                nv.wgmma_wait(0)
                ring.release(previous, lane < cluster, rank=lane)  # lane i tells block i
                store(acc, D, d_tma, row + rank * BM + consumer * 64, col, consumer)
            if nv.warpgroup_thread() == 0:
                nv.bulk_wait_group(0, read=True)

        nv.cluster_sync()  # nobody leaves while others write here

    kernel()


# CHECK-LABEL: func.func @gemm
# CHECK:         gpu.launch clusters
# CHECK:           nvvm.cluster.arrive
# CHECK:           nvvm.cluster.wait
# CHECK:           nvgpu.tma.async.load
# CHECK:           nvgpu.tma.async.load {{.*}} multicast_mask
# CHECK:           nvvm.mapa
# CHECK:           nvvm.mbarrier.arrive {{.*}}relaxed
# CHECK:           nvvm.cluster.wait
# OTHER: PASS


def main(M=512, N=512, K=256, stages=4, tile=(128, 256, 64), consumers=2, blocks=4, group=4, cluster=2):
    chosen = {"stages": stages, "tile": tile, "consumers": consumers, "blocks": blocks, "group": group}
    chosen["cluster"] = cluster
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.full((M, N), np.nan, np.float16)
    print(f"clusters of two: {M} x {N} x {K}, f16 in, f16 out")
    print(gemm.compile(a, b, d, **chosen).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    gemm(a, b, d, **chosen)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    error = np.linalg.norm(d - expected) / np.linalg.norm(expected)
    print(f"relative error against NumPy in float32: {error:.1e}")
    assert error < 1e-3  # d is rounded to f16
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
