# RUN: %python %s | FileCheck %s

"""Accumulator.undefined: a loop carries registers that nothing wrote, and its first product starts the sums."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 8), 7, ptx=True)
def kernel(d, steps):
    A, B = nv.smem((64, 16), nv.f16, swizzle=32), nv.smem((8, 16), nv.f16, swizzle=32)
    acc = nv.accumulator(64, 8).undefined()
    # CHECK-NOT: arith.constant 0.0
    # CHECK: %[[ANY:\w+]] = llvm.mlir.undef : !llvm.struct<(f32, f32, f32, f32)>
    for number in nv.range(steps):
        acc = acc.mma(A, B.T, scale_d=number > 0)
    # CHECK: scf.for {{.*}} iter_args(%[[SUMS:\w+]] = %[[ANY]])
    # CHECK: %[[ADDS:\w+]] = arith.cmpi sgt
    # CHECK: llvm.inline_asm {{.*}}wgmma.mma_async
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


# CHECK-LABEL: .entry kernel
# CHECK-NOT: mov.b32 {{.*}}, 0f00000000
# CHECK: wgmma.mma_async.sync.aligned.m64n8k16
