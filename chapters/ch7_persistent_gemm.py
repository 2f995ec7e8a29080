# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 384 --N 128 --K 128 --stages 3 --tile 128x128x64 --blocks 2 --group 1 2>&1 \
# RUN:   | FileCheck %s --check-prefix=OTHER %}
"""Chapter 7: persistent blocks, and the order of the tiles.

Until here every tile was a block of its own: set up barriers and tensor maps, fill the ring, multiply, store, end.
While a block stores, its SM multiplies nothing. Now as many blocks are launched as there are SMs, and each takes tile
after tile:

    producer     load tile 0 | load tile 132 | load tile 264 ...     never stops: the ring runs on across tiles
    consumers    multiply 0  | store 0 | multiply 132 | store 132 ...

While the consumers store, the ring fills with the next tile's first slices. In the simulator it looks like
docs/pictures/ch7_slots.svg: loads run on under the stores.

The order matters, too. 132 tiles are in work at any time, and what they read should be few rows of A and columns of B,
so that L2 serves most of it. Row by row, 132 tiles of 128 x 256 at N = 8192 are 4 rows of A and all 32 columns of B. In
*groups* of 8 rows, column by column, they are 8 rows of A and 17 columns of B: three fifths of the bytes.

What is new: ``for`` over tiles around the loop over K; ring state carried across tiles; `place`. The epilogue is
chapter 6's `store`. A tile's last slot is released behind the loop, because the next tile goes on with the same ring.

Measured on an H200 at M = N = K = 8192: 702 TFLOPS, 1.02 of cuBLAS beside it.

Try: --group 1 and --group 64 at 8192 with --blocks 132, then 131 blocks; take the tiles in a snake.

Next: neighbouring blocks read the same columns of B. In chapter 8 two of them load these once, for both.

Break it: forget the release behind the loop, which chapter 6 did not need.

    -                 ring.release(previous, nv.lane_id() == 0)

    SimError: ch7_persistent_gemm.py:95: deadlock: 27 warps wait, and nothing is under way that could wake one
      warp 0 of block 0, warp 0 of block 1 and warp 0 of block 2 wait for mbarrier ring.empty[3], parity 0: phase 0
            (parity 0) still needs 8 of 8 arrivals at ch7_persistent_gemm.py:95
      warp 4 of block 0, warp 5 of block 0, warp 6 of block 0, warp 7 of block 0 ... (24 warps) wait for mbarrier
            ring.full[3], parity 1: phase 1 (parity 1) still needs 1 of 1 arrivals at ch7_persistent_gemm.py:111
      ...
      rule: a phase completes when its arrivals and its bytes have all come; a barrier when all its threads have
      fix:  compare the arrival count, the bytes and the phase of the barriers above with who arrives on them

The first tile has 4 slices, in slots 0 to 3, and nobody ever releases slot 3. The producer waits for it when the second
tile comes there, and the consumers wait for the producer.
"""

import sys
from pathlib import Path

import numpy as np

import nvdsl as nv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also when it is run as a program
from chapters.ch6_tma_store_gemm import store


@nv.jit
def gemm(a, b, d, *, stages=4, tile=(128, 256, 64), consumers=2, blocks=132, group=8):
    """d[M, N] = a[M, K] @ b[K, N]; f16 in, f32 sums, f16 out. ``blocks``: no more than the GPU holds at once."""
    (M, K), (_, N) = a.shape, b.shape
    BM, BN, BK = tile
    nv.require_multiples(M=(M, BM), N=(N, BN))
    nv.require(stages >= 2, f"stages = {stages}", rule="a slot is refilled while the next one is multiplied")
    nv.require(BM == 64 * consumers, f"{BM} rows for {consumers} consumers", rule="each consumer sums 64 rows")
    nv.require(BN % 128 == 0, f"{BN} columns", rule="pieces of 64 take turns in two buffers, tile after tile")
    steps, rows, cols = nv.cdiv(K, BK), M // BM, N // BN
    tiles, group = rows * cols, min(group, rows)
    a_tma = nv.TMA(a, tile=(BM, BK), swizzle=128)
    b_tma = nv.TMA(b, tile=(BK, BN), swizzle=128)
    d_tma = nv.TMA(d, tile=(64, 64), swizzle=128)

    def place(t):
        """First row and column of tile ``t``: groups of ``group`` rows of tiles, in a group column by column."""
        band, within = t // (group * cols), t % (group * cols)
        first = band * group
        height = group if rows % group == 0 else nv.min(group, rows - first)
        return (first + within % height) * BM, (within // height) * BN

    @nv.kernel(grid=blocks, block=128 * (1 + consumers))
    def kernel():
        A = nv.smem((stages, BM, BK), a.dtype, swizzle=128)
        B = nv.smem((stages, BK, BN), b.dtype, swizzle=128)
        D = nv.smem((2 * consumers, 64, 64), d.dtype, swizzle=128)
        ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=4 * consumers)
        first = nv.block_id.x
        warpgroup = nv.warpgroup_id()

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(40)
            if nv.warpgroup_thread() == 0:
                state = ring.producer_state()
                for t in nv.range(first, tiles, blocks):
                    row, col = place(t)
                    for k in nv.range(steps):
                        full = ring.acquire(state)
                        a_tma.load(A[state.stage], full, (row, k * BK))
                        b_tma.load(B[state.stage], full, (k * BK, col))
                        state = state.next()
        else:  # consumers
            nv.setmaxnreg_inc(232)
            consumer = warpgroup - 1
            state = ring.consumer_state()
            for t in nv.range(first, tiles, blocks):
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
                    ring.release(previous, nv.lane_id() == 0)
                    previous = state
                    state = state.next()
                nv.wgmma_wait(0)
                ring.release(previous, nv.lane_id() == 0)
                store(acc, D, d_tma, row + consumer * 64, col, consumer)
            if nv.warpgroup_thread() == 0:
                nv.bulk_wait_group(0, read=True)

    kernel()


# CHECK-LABEL: func.func @gemm
# CHECK:         gpu.launch blocks
# The producer: tiles, and slices of K in a tile; the ring's position goes through both loops.
# CHECK:           scf.for {{.*}} iter_args({{.*}}) -> (i32, i32)
# CHECK:             scf.for {{.*}} iter_args({{.*}}) -> (i32, i32)
# CHECK:               nvgpu.tma.async.load
# The consumers: the first product of a tile starts the sum.
# CHECK:           scf.for {{.*}} iter_args({{.*}}) -> (i32, i32)
# CHECK:             nvvm.wgmma.mma_async {{.*}}D[<f32>, <zero>]
# CHECK:             scf.for {{.*}} -> (!llvm.struct<
# CHECK:             nvgpu.tma.async.store
# OTHER: PASS


def main(M=512, N=512, K=256, stages=4, tile=(128, 256, 64), consumers=2, blocks=3, group=8):
    chosen = {"stages": stages, "tile": tile, "consumers": consumers, "blocks": blocks, "group": group}
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.full((M, N), np.nan, np.float16)
    print(f"persistent blocks: {M} x {N} x {K}, f16 in, f16 out")
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
