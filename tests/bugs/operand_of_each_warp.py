"""The warps of a warpgroup give a wgmma different tiles."""

import nvdsl as nv

ARRAYS = [((64, 64), "float16"), ((64, 128), "float16"), ((64, 64), "float32")]


@nv.jit
def kernel(a, b, d):
    a_tma, b_tma = nv.TMA(a, tile=(64, 64), swizzle=128), nv.TMA(b, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A = nv.smem((64, 64), nv.f16, swizzle=128)
        B = nv.smem((2, 64, 64), nv.f16, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(A.bytes + 2 * B.bytes)
            a_tma.load(A, full, (0, 0))
            b_tma.load(B[0], full, (0, 0))
            b_tma.load(B[1], full, (0, 64))
        full.wait(0)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B[nv.warp_id() // 2]  # simulator: wgmma-operands
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    body()
