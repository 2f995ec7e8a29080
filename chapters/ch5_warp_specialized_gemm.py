# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %if all %{ %python %s --M 64 --N 256 --K 192 --stages 3 --tile 64x256x64 --consumers 1 2>&1 \
# RUN:   | FileCheck %s --check-prefix=OTHER %}
"""Chapter 5: the warp-specialized GEMM. One warpgroup loads, two multiply.

In chapter 4 the warps that multiply also wait, meet and refill. Here these jobs are separated: a *producer* warpgroup
does nothing but keep the ring full, and two *consumer* warpgroups do nothing but empty it. Two barriers a slot connect
them: *full* (the bytes are there) and *empty* (each consumer warp is done with them).

    producer    acquire(0) load | acquire(1) load | acquire(2) load | acquire(3) load | acquire(0) waits for empty ...
                     | full          | full            | full
    consumer 0  wait(0) 4 x wgmma    wait(1) 4 x wgmma   release(0)   wait(2) ...    rows  0..63 of the tile
    consumer 1  wait(0) 4 x wgmma    wait(1) 4 x wgmma   release(0)   wait(2) ...    rows 64..127

The producer needs few registers and the consumers many: ``setmaxnreg`` moves them, 40 for the producer and 232 for each
consumer (3 * 128 threads share 64,512). No barrier of the whole block is left in the loop. In the simulator the slots
look like docs/pictures/ch5_slots.svg (``nvdsl run --picture``).

What is new: roles by warpgroup, `nv.Ring` (full and empty barriers with stage and phase), `nv.setmaxnreg_dec` and
``_inc``, ``tile.rows``: a part of a tile.

Measured on an H200 at M = N = K = 8192, f16 out: 675 TFLOPS, 0.95 of cuBLAS beside it.

Try: --tile 64x256x64 --consumers 1; --stages 2; 240 registers for each consumer (66,560 in all: nvdsl refuses what the
hardware would hang on).

Next: the results leave as they lie in the registers, in half-empty sectors. Chapter 6 sends them out through TMA.

Break it: count each consumer once instead of its four warps.

    -         ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=4 * consumers)  # a warp each
    +         ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=consumers)

    VerifyError: ch5_warp_specialized_gemm.py:87: 8 threads arrive at an mbarrier of 2 arrivals (init at line 64)
      rule: a phase completes when as many arrivals have come as mbarrier.init says (PTX ISA, mbarrier.init,
            mbarrier.arrive); the others count for the phases after it
      fix:  initialize with 8, or let one thread arrive: under `if nv.thread_id.x == 0:`, or with a predicate

With two arrivals a slot would be free as soon as two of the eight warps have released it, and the producer would
overwrite what the other six still read.
"""

import numpy as np

import nvdsl as nv


@nv.jit
def gemm(a, b, d, *, stages=4, tile=(128, 256, 64), consumers=2):
    """d[M, N] = a[M, K] @ b[K, N]; f16 or bf16 in, f32 sums, d of any float type."""
    (M, K), (_, N) = a.shape, b.shape
    BM, BN, BK = tile
    nv.require_multiples(M=(M, BM), N=(N, BN))
    nv.require(stages >= 2, f"stages = {stages}", rule="a slot is refilled while the next one is multiplied")
    steps = nv.cdiv(K, BK)
    rows = BM // consumers
    a_tma = nv.TMA(a, tile=(BM, BK), swizzle=128)
    b_tma = nv.TMA(b, tile=(BK, BN), swizzle=128)

    @nv.kernel(grid=(M // BM, N // BN), block=128 * (1 + consumers))
    def kernel():
        A = nv.smem((stages, BM, BK), a.dtype, swizzle=128)
        B = nv.smem((stages, BK, BN), b.dtype, swizzle=128)
        ring = nv.Ring(stages, bytes=A.bytes + B.bytes, consumers=4 * consumers)  # a warp each
        row, col = nv.block_id.x * BM, nv.block_id.y * BN
        warpgroup = nv.warpgroup_id()

        if warpgroup == 0:  # producer
            nv.setmaxnreg_dec(40)
            if nv.warpgroup_thread() == 0:
                state = ring.producer_state()
                for k in nv.range(steps):
                    full = ring.acquire(state)
                    a_tma.load(A[state.stage], full, (row, k * BK))
                    b_tma.load(B[state.stage], full, (k * BK, col))
                    state = state.next()
        else:  # consumers
            nv.setmaxnreg_inc(232)
            first = (warpgroup - 1) * rows
            acc = nv.accumulator(rows, BN, nv.f32)
            state = ring.consumer_state()
            previous = state
            for k in nv.range(steps):
                ring.wait(state)
                acc += A[state.stage].rows(first, rows) @ B[state.stage]
                nv.wgmma_wait(1)  # the products of the previous slot are done
                ring.release(previous, predicate=nv.lane_id() == 0 and k > 0)
                previous = state
                state = state.next()
            nv.wgmma_wait(0)
            acc.store(d, (row + first, col))

    kernel()


# CHECK-LABEL: func.func @gemm
# CHECK:         gpu.launch blocks
# CHECK:           %[[FULL:.*]] = nvgpu.mbarrier.create -> <{{.*}}num_barriers = 4>
# CHECK:           %[[EMPTY:.*]] = nvgpu.mbarrier.create -> <{{.*}}num_barriers = 4>
# CHECK:           scf.if
# CHECK:             nvvm.setmaxregister decrease 40
# CHECK:             scf.for
# CHECK:               nvgpu.mbarrier.try_wait.parity %[[EMPTY]]
# CHECK:               nvgpu.mbarrier.arrive.expect_tx %[[FULL]]
# CHECK:               nvgpu.tma.async.load {{.*}}, %[[FULL]]
# CHECK:           } else {
# CHECK:             nvvm.setmaxregister increase 232
# CHECK:             scf.for
# CHECK:               nvgpu.mbarrier.try_wait.parity %[[FULL]]
# CHECK-COUNT-4:       nvvm.wgmma.mma_async
# CHECK:               nvvm.wgmma.wait.group.sync.aligned 1
# CHECK:               nvgpu.mbarrier.arrive %[[EMPTY]]
# OTHER: PASS


def main(M=512, N=512, K=1024, stages=4, tile=(128, 256, 64), consumers=2):
    chosen = {"stages": stages, "tile": tile, "consumers": consumers}
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.full((M, N), np.nan, np.float32)
    print(f"warp-specialized GEMM: {M} x {N} x {K}, f16 in, f32 out")
    print(gemm.compile(a, b, d, **chosen).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    gemm(a, b, d, **chosen)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    error = np.linalg.norm(d - expected) / np.linalg.norm(expected)
    print(f"relative error against NumPy in float32: {error:.1e}")
    assert error < 1e-5
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
