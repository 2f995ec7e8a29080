# RUN: %python %s | FileCheck %s

"""Both majors of both operands, for 16-bit types: row is K-major for A, col for B; A's trans bit comes first in PTX."""

from show import array, show

import nvdsl as nv


def product(a, b, d):
    acc = nv.accumulator(64, 64)
    acc += a @ b
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


def tile():
    return nv.smem((64, 64), nv.f16, swizzle=128)


@show(array(nv.f32, 64, 64), ptx=True)
def k_major_by_n_major(d):
    product(tile(), tile(), d)
    # CHECK: nvvm.wgmma.mma_async {{.*}}A[<f16>, <one>, <row>], B[<f16>, <one>, <row>]
    # CHECK: wgmma.mma_async.sync.aligned{{.*}}, p, 1, 1, 0, 1;


@show(array(nv.f32, 64, 64), ptx=True)
def k_major_by_k_major(d):
    product(tile(), tile().T, d)
    # CHECK: nvvm.wgmma.mma_async {{.*}}A[<f16>, <one>, <row>], B[<f16>, <one>, <col>]
    # CHECK: wgmma.mma_async.sync.aligned{{.*}}, p, 1, 1, 0, 0;


@show(array(nv.f32, 64, 64), ptx=True)
def m_major_by_n_major(d):
    product(tile().T, tile(), d)
    # CHECK: nvvm.wgmma.mma_async {{.*}}A[<f16>, <one>, <col>], B[<f16>, <one>, <row>]
    # CHECK: wgmma.mma_async.sync.aligned{{.*}}, p, 1, 1, 1, 1;
