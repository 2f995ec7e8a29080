# RUN: %python %s | FileCheck %s

"""scale_d: a Python bool is an immediate of the dialect's op; a traced condition a register of inline PTX."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 16), ptx=True)
def kernel(d):
    A, B = nv.smem((64, 32), nv.f16, swizzle=64), nv.smem((32, 16), nv.f16, swizzle=32)
    acc = nv.accumulator(64, 16)
    acc = acc.mma(A, B, scale_d=True)
    # A zero accumulator starts a new sum, whatever scale_d says.
    # CHECK: nvvm.wgmma.mma_async {{.*}}D[<f32>, <zero>]
    # CHECK: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
    acc = acc.mma(A, B, scale_d=False)
    # CHECK: nvvm.wgmma.mma_async {{.*}}D[<f32>, <zero>]
    # CHECK: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
    again = nv.block_id.x > 0
    # CHECK: %[[AGAIN:\w+]] = arith.cmpi sgt
    acc = acc.mma(A, B, scale_d=again)
    # CHECK: %[[SCALE:\w+]] = arith.extui %[[AGAIN]] : i1 to i32
    # CHECK: llvm.inline_asm {{.*}}{nvdsl.ptx = "wgmma"} "{ .reg .pred p; setp.ne.b32 p, $10, 0; wgmma.mma_async
    # CHECK-SAME: %[[SCALE]],
    # CHECK-SAME: (line [[# @LINE - 4]])
    # Only the first step starts the sum.
    # CHECK: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


# CHECK-LABEL: .entry kernel
# CHECK: setp.ne.b32 p, %r{{\d+}}, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {{.*}}, %rd{{\d+}}, %rd{{\d+}}, p, 1, 1, 0, 1; }
