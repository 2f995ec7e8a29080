# RUN: %python %s | FileCheck %s

"""wgmma bf16 * bf16 -> f32: k16."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 256), ptx=True)
def kernel(d):
    acc = nv.accumulator(64, 256)
    acc += nv.smem((64, 16), nv.bf16, swizzle=32) @ nv.smem((16, 256), nv.bf16, swizzle=128)
    # CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 256, k = 16>, D[<f32>, <zero>], A[<bf16>, {{.*}}, B[<bf16>,
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
