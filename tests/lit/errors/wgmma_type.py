# RUN: not %python %s 2>&1 | FileCheck %s


"""A product that the tensor cores don't have."""

import nvdsl as nv


@nv.jit
def gemm():
    @nv.kernel(grid=1, block=128)
    def kernel():
        acc = nv.accumulator(64, 64, nv.f16)
        acc += nv.smem((64, 64), nv.bf16, swizzle=128) @ nv.smem((64, 64), nv.bf16, swizzle=128)

    kernel()


gemm.compile()

# CHECK: nvdsl.errors.TraceError: {{.*}}wgmma_type.py:[[# @LINE - 7]]: no wgmma multiplies bf16 by bf16 into f16
# CHECK-NEXT: rule: wgmma takes f16*f16 -> f32/f16; bf16*bf16 -> f32;
# CHECK-NEXT: fix: accumulate in f32
