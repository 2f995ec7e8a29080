"""The first wgmma of a sum adds to registers that nothing wrote."""

import nvdsl as nv
from nvdsl.mlir.dialects import llvm

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
        struct = llvm.mlir_undef(nv.ops.wgmma.accumulator_type(64, nv.f32))
        acc = nv.Accumulator(64, 64, nv.f32, [struct])
        acc += A @ B  # verifier, simulator: undefined-accumulator
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    body()
