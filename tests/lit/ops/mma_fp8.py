# RUN: %python %s | FileCheck %s

"""wgmma of e4m3 and e5m2 in any pairing: k32, both operands K-major, f32 or f16 sums."""

from show import array, refused, show

import nvdsl as nv


def product(a, b, d):
    acc = nv.accumulator(64, 8, d.dtype)
    acc += nv.smem((64, 32), a, swizzle=32) @ nv.smem((8, 32), b, swizzle=32).T
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


@show(array(nv.f32, 64, 8), ptx=True)
def e4m3_by_e4m3(d):
    product(nv.e4m3, nv.e4m3, d)
    # CHECK: nvvm.wgmma.mma_async {{.*}}<m = 64, n = 8, k = 32>, D[<f32>, <zero>], A[<e4m3>, <one>, <row>], B[<e4m3>, <one>, <col>]
    # CHECK: wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3


@show(array(nv.f16, 64, 8), ptx=True)
def e5m2_by_e4m3(d):
    product(nv.e5m2, nv.e4m3, d)
    # CHECK: nvvm.wgmma.mma_async {{.*}}D[<f16>, {{.*}}A[<e5m2>, {{.*}}B[<e4m3>,
    # CHECK: wgmma.mma_async.sync.aligned.m64n8k32.f16.e5m2.e4m3


@refused()
def m_major():
    acc = nv.accumulator(64, 8)
    acc += nv.smem((32, 64), nv.e4m3, swizzle=64).T @ nv.smem((8, 32), nv.e4m3, swizzle=32).T
    # CHECK: TraceError: mma_fp8.py:[[# @LINE - 1]]: A of type e4m3 is M-major
    # CHECK-NEXT: rule: only 16-bit types can be transposed by wgmma


@refused()
def with_f16():
    acc = nv.accumulator(64, 8)
    acc += nv.smem((64, 32), nv.e4m3, swizzle=32) @ nv.smem((8, 32), nv.f16, swizzle=64).T
    # CHECK: TraceError: mma_fp8.py:[[# @LINE - 1]]: no wgmma multiplies e4m3 by f16 into f32
    # CHECK-NEXT: rule: wgmma takes f16*f16 -> f32/f16;
    # CHECK-NEXT: fix: convert the operands to one type
