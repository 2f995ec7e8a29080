"""Lanes that know that they need no result skip the wait for wgmma, which wants whole warps."""

import nvdsl as nv

ARRAYS = [((64, 64), "float16"), ((64, 64), "float16"), ((128,), "int32"), ((64, 64), "float32")]


@nv.jit
def kernel(a, b, wanted, d):
    a_tma, b_tma = nv.TMA(a, tile=(64, 64), swizzle=128), nv.TMA(b, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        if wanted[nv.thread_id.x] == nv.lane_id():
            nv.wgmma_wait(0)  # simulator: wgmma-converged
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    body()
