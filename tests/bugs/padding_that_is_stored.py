"""40 rows of A are loaded and all 64 rows of the product are stored."""

import nvdsl as nv

ARRAYS = [((64, 64), "float16"), ((64, 64), "float16"), ((64, 64), "float32")]


@nv.jit
def kernel(a, b, d):
    a_tma, b_tma = nv.TMA(a, tile=(40, 64), swizzle=128), nv.TMA(b, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(a_tma.bytes + b_tma.bytes)
            a_tma.load(A.rows(0, 40), full, (0, 0))
            b_tma.load(B, full, (0, 0))
        full.wait(0)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))  # simulator: uninitialized

    body()
