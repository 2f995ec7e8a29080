# RUN: %python %s | FileCheck %s

"""wgmma tf32 * tf32 -> f32: k8; tiles of f32 are read as tf32, and tiles of tf32, too."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 16), ptx=True)
def kernel(d):
    acc = nv.accumulator(64, 16)
    acc += nv.smem((64, 8), nv.f32, swizzle=32) @ nv.smem((16, 8), nv.f32, swizzle=32).T
    # CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 16, k = 8>, D[<f32>, <zero>], A[<tf32>, <one>, <row>], B[<tf32>, <one>, <col>]
    acc += nv.smem((64, 8), nv.tf32, swizzle=32) @ nv.smem((16, 8), nv.tf32, swizzle=32).T
    # CHECK: nvvm.wgmma.mma_async {{.*}}A[<tf32>, {{.*}}B[<tf32>,
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.mma_async.sync.aligned.m64n16k8.f32.tf32.tf32


@refused()
def n_major():
    acc = nv.accumulator(64, 32)
    acc += nv.smem((64, 8), nv.f32, swizzle=32) @ nv.smem((8, 32), nv.f32, swizzle=128)
    # CHECK: TraceError: mma_tf32.py:[[# @LINE - 1]]: B of type tf32 is N-major
    # CHECK-NEXT: rule: only 16-bit types can be transposed by wgmma; tf32, fp8 and int8 operands are K-major
    # CHECK-NEXT: fix: store the operand with K contiguous
