# RUN: %python %s | FileCheck %s

"""wgmma f16 * f16 -> f16: a register holds two sums, the left one in its low half."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 64, 16), ptx=True)
def kernel(d):
    acc = nv.accumulator(64, 16, nv.f16)
    acc += nv.smem((64, 16), nv.f16, swizzle=32) @ nv.smem((16, 16), nv.f16, swizzle=32)
    # CHECK: nvvm.wgmma.mma_async {{.*}}D[<f16>, <zero>]
    # CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)> (line [[# @LINE - 2]])
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))
    # CHECK: %[[PAIR:\w+]] = llvm.bitcast %{{.*}} : i32 to vector<2xf16>
    # CHECK: vector.extract %[[PAIR]][0]
    # CHECK: vector.extract %[[PAIR]][1]


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%r{{\d+}}, %r{{\d+}}, %r{{\d+}}, %r{{\d+}}}, %rd


@refused()
def bf16():
    acc = nv.accumulator(64, 16, nv.f16)
    acc += nv.smem((64, 16), nv.bf16, swizzle=32) @ nv.smem((16, 16), nv.bf16, swizzle=32)
    # CHECK: TraceError: mma_f16_accumulator.py:[[# @LINE - 1]]: no wgmma multiplies bf16 by bf16 into f16
    # CHECK-NEXT: rule: wgmma takes
    # CHECK-NEXT: fix: accumulate in f32
