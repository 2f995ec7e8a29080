# RUN: %python %s | FileCheck %s

"""wgmma of i8 and u8 -> i32: k32, signs from the tiles' dtypes."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64, 24), ptx=True)
def kernel(d):
    acc = nv.accumulator(64, 24, nv.i32)
    acc += nv.smem((64, 32), nv.i8, swizzle=32) @ nv.smem((24, 32), nv.u8, swizzle=32).T
    # CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 24, k = 32>, D[<s32>, <zero>], A[<s8>, {{.*}}, B[<u8>,
    # CHECK-SAME: -> !llvm.struct<(i32,
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.mma_async.sync.aligned.m64n24k32.s32.s8.u8


@refused()
def width_that_integers_lack():
    acc = nv.accumulator(64, 40, nv.i32)
    acc += nv.smem((64, 32), nv.i8, swizzle=32) @ nv.smem((40, 32), nv.i8, swizzle=32).T
    # CHECK: TraceError: mma_int8.py:[[# @LINE - 1]]: no wgmma has N = 40 for i8
    # CHECK-NEXT: rule: N is a multiple of 8 from 8 to 256; for 8-bit integers 8, 16, 24 and multiples of 16 from 32
    # CHECK-NEXT: fix: split N into such pieces


@refused()
def float_sums():
    acc = nv.accumulator(64, 32, nv.f32)
    acc += nv.smem((64, 32), nv.i8, swizzle=32) @ nv.smem((32, 32), nv.i8, swizzle=32).T
    # CHECK: TraceError: mma_int8.py:[[# @LINE - 1]]: no wgmma multiplies i8 by i8 into f32
    # CHECK-NEXT: rule: wgmma takes
    # CHECK-NEXT: fix: accumulate in i32
