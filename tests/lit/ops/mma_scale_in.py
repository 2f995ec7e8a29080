# RUN: %python %s | FileCheck %s

"""ops.wgmma.mma_async: scale_a and scale_b are 1 or -1, an immediate each; 8-bit integers have none."""

from show import refused, show

import nvdsl as nv
from nvdsl.layout import Operand
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import wgmma


def multiply(dtype, sums, **scales):
    tile = nv.smem((64, 32 // dtype.bytes), dtype, swizzle=32)
    descriptor = wgmma.descriptor(tile.address, Operand(tile.layout, "k"))
    start = llvm.mlir_zero(wgmma.accumulator_type(8, sums))
    return wgmma.mma_async(start, descriptor, descriptor, n=8, a_dtype=dtype, b_dtype=dtype, d_dtype=sums, **scales)


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    wgmma.wgmma_fence()
    multiply(nv.f16, nv.f32, scale_a=-1)
    # CHECK: nvvm.wgmma.mma_async {{.*}}A[<f16>, <neg>, <row>], B[<f16>, <one>, <col>]
    multiply(nv.f16, nv.f32, scale_b=-1)
    # CHECK: nvvm.wgmma.mma_async {{.*}}A[<f16>, <one>, <row>], B[<f16>, <neg>, <col>]
    multiply(nv.f16, nv.f32, scale_a=-1, scale_d=nv.thread_id.x < 0)
    # CHECK: llvm.inline_asm {{.*}} p, -1, 1, 0, 0; }"


# The errors are at the line of the call that stands in multiply().
@refused()
def no_sign():
    multiply(nv.f16, nv.f32, scale_a=2)
    # CHECK: TraceError: mma_scale_in.py:{{.*}}: wgmma of f16 with scale_a=2, scale_b=1
    # CHECK-NEXT: rule: a scale is 1 or -1; integer types have none (PTX ISA, wgmma.mma_async, imm-scale)
    # CHECK-NEXT: fix: scale the accumulator's elements instead


@refused()
def integers():
    multiply(nv.i8, nv.i32, scale_b=-1)
    # CHECK: TraceError: mma_scale_in.py:{{.*}}: wgmma of i8 with scale_a=1, scale_b=-1
