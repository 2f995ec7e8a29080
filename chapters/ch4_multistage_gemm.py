# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %python %s --M 128 --N 128 --K 200 --stages 2 --tile 64x64x64 2>&1 \
# RUN:   | FileCheck %s --check-prefix=OTHER
"""Chapter 4: the multistage GEMM. Prologue, mainloop, epilogue.

While the tensor cores work on one slice of K, TMA brings the next ones: shared memory holds a ring of
``stages`` slots, each with an A tile, a B tile and an mbarrier.

    k-step            0        1        2        3        4
    slot (3 stages)   0        1        2        0        1
    TMA           [load 0][load 1]  [load 2][load 3][load 4]
    wgmma                  [ k = 0 ][ k = 1 ][ k = 2 ][ k = 3 ]...
                 prologue |  mainloop: wait full, issue k, wait for k-1, refill its slot   | epilogue

- prologue: fill all slots but one.
- mainloop: wait for slot ``k``; issue its wgmmas; wait until those of ``k-1`` are done (one group stays in
  flight); then one thread refills the slot that ``k-1`` used. A wait speaks for the wgmmas of the whole warpgroup. The
  barrier is for warps that read a slot in another way, and for a second warpgroup: nobody may overtake them.
- epilogue: wait for the last group, convert, store.

The phase of a slot is how often the ring has gone round, ``k // stages``, and a wait names its lowest bit. In the
simulator the slots look like docs/pictures/ch4_slots.svg (``nvdsl run --picture``).

What is new: a ring of slots, traced loops that carry the accumulator (plain ``for`` over `nv.range`), groups in flight.

Measured on an H200 at M = N = K = 8192, f16 out: 640 TFLOPS, 0.86 of cuBLAS beside it.

Try: --stages 2 and 4 (3 lets two blocks share an SM, which fill each other's gaps); --K 8; remove ``nv.sync_threads()``
from the loop (it passes: a wait for wgmma speaks for all four warps, docs/hardware.md; with two warpgroups it can't).

Next: every warp stops at two barriers a step. In chapter 5 those who load and those who multiply part.

Break it: leave two groups in flight instead of one.

    -             nv.wgmma_wait(1)  # the products of step k-1 are done
    +             nv.wgmma_wait(2)  # the products of step k-2 are done

    SimError: ch4_multistage_gemm.py:77: TMA load by warp 0 of block (0, 0) at ch4_multistage_gemm.py:77 touches bytes
          0..16383 of shared memory of wgmma reads A by warp 3 of block (0, 0) at ch4_multistage_gemm.py:89: nothing
          orders the two
      first:  wgmma reads A by warp 3 of block (0, 0) at ch4_multistage_gemm.py:89
      second: TMA load by warp 0 of block (0, 0) at ch4_multistage_gemm.py:77
      rule: a wgmma reads its operands until wgmma.wait_group says that its group is done
      fix:  before the slot is refilled: wgmma_wait, then a barrier of (or an arrive by) all the warps that read it

The slot that is refilled is the one of step k-1, whose wgmmas may still read it. A GPU may give right numbers all the
same, if the copy comes late enough. The simulator does not ask who was faster, but what orders the two.
"""

import numpy as np

import nvdsl as nv


@nv.jit
def gemm(a, b, d, *, stages=3, tile=(128, 128, 64)):
    """d[M, N] = a[M, K] @ b[K, N]; f16 or bf16 in, f32 sums, d of any float type."""
    (M, K), (_, N) = a.shape, b.shape
    BM, BN, BK = tile
    nv.require_multiples(M=(M, BM), N=(N, BN))
    nv.require(stages >= 2, f"stages = {stages}", rule="a slot is refilled while the next one is multiplied")
    steps = nv.cdiv(K, BK)  # TMA fills what lies past the end of K with zeros
    a_tma = nv.TMA(a, tile=(BM, BK), swizzle=128)
    b_tma = nv.TMA(b, tile=(BK, BN), swizzle=128)

    @nv.kernel(grid=(M // BM, N // BN), block=128)
    def kernel():
        A = nv.smem((stages, BM, BK), a.dtype, swizzle=128)
        B = nv.smem((stages, BK, BN), b.dtype, swizzle=128)
        full = nv.Mbarriers(stages, arrivals=1)
        row, col = nv.block_id.x * BM, nv.block_id.y * BN

        def load(k):
            slot = k % stages
            if nv.thread_id.x == 0:
                full[slot].arrive_expect_tx(A.bytes + B.bytes)
                a_tma.load(A[slot], full[slot], (row, k * BK))
                b_tma.load(B[slot], full[slot], (k * BK, col))

        # Prologue
        for k in range(min(stages - 1, steps)):  # a Python range: unrolled
            load(k)

        # Mainloop
        acc = nv.accumulator(BM, BN, nv.f32)
        for k in nv.range(steps):
            slot = k % stages
            full[slot].wait((k // stages) & 1)
            acc += A[slot] @ B[slot]
            nv.wgmma_wait(1)  # the products of step k-1 are done
            nv.sync_threads()  # all warps are here: the slot is free, whoever else reads it
            if k + stages - 1 < steps:
                load(k + stages - 1)

        # Epilogue
        nv.wgmma_wait(0)
        acc.store(d, (row, col))

    kernel()


# CHECK-LABEL: func.func @gemm
# CHECK:         gpu.launch blocks
# CHECK:           %[[FULL:.*]] = nvgpu.mbarrier.create -> <{{.*}}num_barriers = 3>
# Prologue: two of three slots.
# CHECK-COUNT-2:   nvgpu.mbarrier.arrive.expect_tx %[[FULL]]
# Mainloop: two accumulators of 64 rows are carried.
# CHECK:           scf.for {{.*}} iter_args({{.*}}) -> (!llvm.struct<{{.*}}>, !llvm.struct<{{.*}}>) : i32 {
# CHECK:             nvgpu.mbarrier.try_wait.parity %[[FULL]]
# CHECK:             nvvm.wgmma.fence.aligned
# CHECK-COUNT-8:     nvvm.wgmma.mma_async
# CHECK:             nvvm.wgmma.commit.group.sync.aligned
# CHECK:             nvvm.wgmma.wait.group.sync.aligned 1
# CHECK:             gpu.barrier
# CHECK:             scf.if
# CHECK:               nvgpu.mbarrier.arrive.expect_tx %[[FULL]]
# CHECK:               nvgpu.tma.async.load
# CHECK:             scf.yield
# Epilogue.
# CHECK:           nvvm.wgmma.wait.group.sync.aligned 0
# CHECK:           vector.store
# OTHER: PASS


def main(M=512, N=256, K=1024, stages=3, tile=(128, 128, 64)):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.full((M, N), np.nan, np.float32)
    print(f"multistage GEMM: {M} x {N} x {K}, f16 in, f32 out")
    print(gemm.compile(a, b, d, stages=stages, tile=tile).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    gemm(a, b, d, stages=stages, tile=tile)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    error = np.linalg.norm(d - expected) / np.linalg.norm(expected)
    print(f"relative error against NumPy in float32: {error:.1e}")
    assert error < 1e-5
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
