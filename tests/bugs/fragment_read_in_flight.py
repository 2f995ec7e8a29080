"""A fragment of A in registers is read while the wgmma that multiplies it is in flight."""

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
        acc = nv.accumulator(64, 64, nv.f32)
        acc += A @ B
        nv.wgmma_wait(0)
        fragment = acc.fragment(nv.f16)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += fragment @ B
        low = nv.smem((128,), nv.i32)
        low[nv.thread_id.x] = fragment.registers[0][0][0]  # verifier, simulator: fragment-in-flight
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    body()
