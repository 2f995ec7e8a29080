# RUN: %python %s | FileCheck %s

"""wgmma f16 * f16 -> f32: k16; A and B by descriptors that differ by the start address alone from step to step."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 64), ptx=True)
def kernel(d):
    A = nv.smem((64, 64), nv.f16, swizzle=128)
    B = nv.smem((64, 64), nv.f16, swizzle=128)
    acc = nv.accumulator(64, 64)
    acc += A @ B
    # B's descriptor: N-major, panels of 64 columns 8192 bytes long, 128-byte swizzle: 1 << 62 | 64 << 32 | 512 << 16.
    # CHECK: %[[FIELDS:\w+]] = arith.constant 4611686293338849280 : i64
    # CHECK: %[[B:\w+]] = arith.ori %{{.*}}, %[[FIELDS]]
    # CHECK: %[[A:\w+]] = arith.ori
    # CHECK: nvvm.wgmma.fence.aligned (line [[# @LINE - 5]])
    # CHECK: %[[D0:\w+]] = nvvm.wgmma.mma_async %[[A]], %[[B]], %{{.*}}, <m = 64, n = 64, k = 16>, D[<f32>, <zero>], A[<f16>, <one>, <row>], B[<f16>, <one>, <row>]
    # Along K: B's next 16 rows are 2048 bytes on, A's next 16 columns 32 bytes.
    # CHECK: %[[ROWS:\w+]] = arith.constant 128 : i64
    # CHECK: %[[B1:\w+]] = arith.addi %[[B]], %[[ROWS]]
    # CHECK: %[[COLS:\w+]] = arith.constant 2 : i64
    # CHECK: %[[A1:\w+]] = arith.addi %[[A]], %[[COLS]]
    # CHECK: nvvm.wgmma.mma_async %[[A1]], %[[B1]], %[[D0]], {{.*}}D[<f32>, <one>]
    # CHECK-COUNT-2: nvvm.wgmma.mma_async
    # CHECK-NOT: nvvm.wgmma.mma_async
    # CHECK: nvvm.wgmma.commit.group.sync.aligned (line [[# @LINE - 15]])
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r
