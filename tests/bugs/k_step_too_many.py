"""The loop over K does one step more than the tile has: the descriptor goes on into the tile behind it."""

import nvdsl as nv

ARRAYS = [((64, 64), "float16"), ((64, 64), "float16"), ((64, 64), "float32")]


@nv.jit
def kernel(a, b, d):
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
        a_start = nv.ops.wgmma.descriptor(A.address, A.operand(0))
        b_start = nv.ops.wgmma.descriptor(B.address, B.T.operand(1))
        (acc,) = nv.accumulator(64, 64, nv.f32).blocks
        types = {"n": 64, "a_dtype": nv.f16, "b_dtype": nv.f16, "d_dtype": nv.f32}
        nv.wgmma_fence()
        for k in range(5):
            at = A.operand(0).k_offset(k) >> 4
            acc = nv.ops.wgmma.mma_async(acc, a_start + at, b_start, **types)  # simulator: operand-beyond
        nv.wgmma_commit()
        nv.wgmma_wait(0)
        nv.Accumulator(64, 64, nv.f32, [acc]).store(d, (0, 0))

    body()
