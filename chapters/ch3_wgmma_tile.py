# RUN: env NVDSL_DUMP=trace %python %s 2>&1 | FileCheck %s
# RUN: %python %s --M 64 --N 192 --K 128 2>&1 | FileCheck %s --check-prefix=OTHER
"""Chapter 3: one 128 x 128 x 64 tile on the tensor cores.

Four warps, a *warpgroup*, multiply matrices with one asynchronous instruction: ``wgmma`` reads A and B from shared
memory and sums into registers, 64 rows by up to 256 columns at a time, 16 elements of K (f16) a step. The tile here
takes 2 (rows) x 4 (k) of them.

    A 128 x 64 (K contiguous)   B 64 x 128 (N contiguous)          accumulator: 128 x 128 f32,
    one panel of 128 bytes      two panels of 64 columns           128 registers in each of 128 threads

    TMA A, B -> full | wgmma.fence  8 x wgmma  commit | wait | registers -> global

Shared memory must be laid out as wgmma reads it: ``swizzle=128`` permutes the 16-byte units of each row so that
eight rows never meet in one bank. The tensor map, the tile and the matrix descriptor must agree; here all
three come from the tile. docs/pictures/swizzle_128.svg shows eight rows of A in shared memory, and
docs/pictures/ch3_accumulator.svg which thread holds which element of the result.

What is new: swizzled tiles, ``A @ B``, `nv.accumulator`, `nv.wgmma_wait`, ``acc.store``.

Measured on an H200: the numbers are right; one tile on one of 132 SMs is no measure of speed. Chapter 4 is.

Try: print the layout of the accumulator with ``nv.layout.accumulator_element(thread, register)``; b as (N, K) and
``B.T``; bf16 instead of f16; --K 192 (three panels of A, 24 wgmmas).

Next: a real K is too long for shared memory. Chapter 4 takes it in slices, and loads the next one meanwhile.

Break it: store without waiting.

    -         nv.wgmma_wait(0)

    VerifyError: ch3_wgmma_tile.py:67: the accumulator is read while the wgmma at line 66 may be in flight: nothing
          waits for it
      rule: the registers of an accumulator are not to be touched before a wgmma.wait_group that covers the wgmma's
            group (PTX ISA, wgmma.mma_async, wgmma.wait_group)
      fix:  nv.wgmma_wait(0) before the accumulator is read

The product is issued, not done, and the threads go on at once: they would store registers that are still being
written. (ptxas would find it, too. It warns with C7517 and inserts a wait.)
"""

import numpy as np

import nvdsl as nv


@nv.jit
def gemm_tile(a, b, d):
    (M, K), (_, N) = a.shape, b.shape
    a_tma = nv.TMA(a, tile=(M, K), swizzle=128)
    b_tma = nv.TMA(b, tile=(K, N), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A = nv.smem((M, K), a.dtype, swizzle=128)
        B = nv.smem((K, N), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]  # init, fence and sync of chapter 2 in one

        if nv.thread_id.x == 0:
            full.arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)

        acc = nv.accumulator(M, N, nv.f32)
        acc += A @ B  # issued, not done
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    kernel()


# CHECK-LABEL: func.func @gemm_tile
# CHECK:         nvgpu.tma.create.descriptor {{.*}} swizzle = swizzle_128b
# CHECK:         gpu.launch blocks
# CHECK:           nvgpu.mbarrier.arrive.expect_tx
# CHECK-COUNT-3:   nvgpu.tma.async.load
# CHECK:           nvgpu.mbarrier.try_wait.parity
# CHECK:           nvvm.wgmma.fence.aligned
# CHECK-COUNT-8:   nvvm.wgmma.mma_async
# CHECK:           nvvm.wgmma.commit.group.sync.aligned
# CHECK:           nvvm.wgmma.wait.group.sync.aligned 0
# CHECK:           vector.store
# OTHER: PASS


def main(M=128, N=128, K=64):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.full((M, N), np.nan, np.float32)
    print(gemm_tile.compile(a, b, d).report())
    if why := nv.no_gpu():
        print(f"{why}: in the simulator")
    gemm_tile(a, b, d)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(d, expected, rtol=1e-4, atol=1e-3)
    print("PASS")


if __name__ == "__main__":
    from command_line import run

    run(main)
