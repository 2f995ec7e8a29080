# RUN: %python %s | FileCheck %s

"""A kernel uses the host function's arrays, scalars and tensor maps, and may take arguments; each is a parameter."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[X:\w+]]: memref<64x64xf32>
# CHECK-SAME: %[[ALPHA:\w+]]: f32
# CHECK-SAME: %[[COUNT:\w+]]: i32
@show(array(nv.f32, 64, 64), 2.5, 3, ptx=True)
@nv.jit
def host(x, alpha, count):
    tma = nv.TMA(x, tile=(8, 32))
    # CHECK: %[[MAP:\w+]] = nvgpu.tma.create.descriptor

    @nv.kernel(grid=1, block=128)
    def kernel(factor):
        tma.prefetch()
        # CHECK: gpu.launch
        # CHECK: nvgpu.tma.prefetch.descriptor %[[MAP]] :
        x[0, 0] = alpha * factor
        # CHECK: %[[PRODUCT:\w+]] = arith.mulf %[[ALPHA]], %{{.*}} : f32
        # CHECK: memref.store %[[PRODUCT]], %[[X]]

    kernel(nv.f32(count))
    # CHECK: gpu.terminator


# CHECK-LABEL: .visible .entry kernel
# CHECK-DAG: .param .align 64 .b8 kernel_param_{{\d}}[128]
# CHECK-DAG: .param .u64 .ptr .align 1 kernel_param_{{\d}}
# CHECK-DAG: .param .f32 kernel_param_{{\d}}
# CHECK-DAG: .param .f32 kernel_param_{{\d}}
