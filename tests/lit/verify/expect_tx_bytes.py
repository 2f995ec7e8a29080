# RUN: %python %s | FileCheck %s

"""expect_tx of another number than the boxes on that mbarrier bring: both lines, and the sum."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f16, 128, 64), array(nv.f16, 64, 128))
@nv.jit
def gemm(a, b):
    a_tma = nv.TMA(a, tile=(128, 64), swizzle=128)
    b_tma = nv.TMA(b, tile=(64, 128), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def kernel():
        A = nv.smem((128, 64), nv.f16, swizzle=128)
        B = nv.smem((64, 128), nv.f16, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(A.bytes)
            # CHECK: VerifyError: expect_tx_bytes.py:[[# @LINE - 1]]: the mbarrier expects 16,384 bytes, and the copies
            a_tma.load(A, full, (0, 0))
            # CHECK-SAME: that complete on it bring 16,384 (line [[# @LINE - 1]]) +
            b_tma.load(B, full, (0, 0))
            # CHECK-SAME: 2*8,192 (line [[# @LINE - 1]]) = 32,768
            # CHECK-NEXT: rule: a phase completes when exactly the expected bytes have arrived
            # CHECK-NEXT: fix: expect 32,768 bytes: the sum of the tiles' .bytes
        full.wait(0)

    kernel()
