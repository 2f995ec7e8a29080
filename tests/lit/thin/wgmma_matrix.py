# RUN: %python %s | FileCheck %s

"""WGMMAMatrix: `D += A @ B` is two descriptors and nvgpu.warpgroup.mma; the accumulator is stored after a wait for all."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.thin import NVDSL, TMA, T, WGMMAMatrix, WGMMAType, get_dynamic_shared_memory, nvgpu


# CHECK-LABEL: func.func @host
@show(array(nv.f16, 128, 64), array(nv.f16, 64, 64), array(nv.f32, 128, 64), ptx=True)
@NVDSL.mlir_func
def host(a, b, d):
    swizzle = nvgpu.TensorMapSwizzleKind.SWIZZLE_128B
    a_tma, b_tma = TMA([128, 64], a.type, swizzle=swizzle), TMA([64, 64], b.type, swizzle=swizzle)
    a_tma.create_descriptor(a)
    b_tma.create_descriptor(b)
    # CHECK: %[[A_MAP:\w+]] = nvgpu.tma.create.descriptor
    # CHECK: %[[B_MAP:\w+]] = nvgpu.tma.create.descriptor

    @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(128, 1, 1), smem=128 * 64 * 2 + 64 * 64 * 2)
    def kernel():
        A = WGMMAMatrix(WGMMAType.Descriptor, [128, 64], desc=a_tma)
        B = WGMMAMatrix(WGMMAType.Descriptor, [64, 64], desc=b_tma)
        D = WGMMAMatrix(WGMMAType.Accumulator, shape=[128, 64], ty=T.f32())
        # CHECK: %[[ZERO:\w+]] = nvgpu.warpgroup.mma.init.accumulator -> <fragmented = vector<128x64xf32>> (line [[# @LINE - 1]])
        A.update_smem(get_dynamic_shared_memory([128, 64], T.f16()))
        B.update_smem(get_dynamic_shared_memory([64, 64], T.f16(), 128 * 64 * 2))
        D += A @ B
        # CHECK: %[[A:\w+]] = nvgpu.warpgroup.generate.descriptor %{{.*}}, %[[A_MAP]] : {{.*}}(line [[# @LINE - 1]])
        # CHECK: %[[B:\w+]] = nvgpu.warpgroup.generate.descriptor %{{.*}}, %[[B_MAP]] :
        # CHECK: %[[D:\w+]] = nvgpu.warpgroup.mma %[[A]], %[[B]], %[[ZERO]] {transposeB}
        D.store_accumulator(d)
        # CHECK: nvvm.wgmma.wait.group.sync.aligned 0 (line [[# @LINE - 1]])
        # CHECK-NEXT: nvgpu.warpgroup.mma.store %[[D]],

    kernel()


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
# CHECK: wgmma.commit_group.sync.aligned;


@refused(array(nv.f16, 128, 64))
@NVDSL.mlir_func
def shape(a):
    @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(128, 1, 1))
    def kernel():
        WGMMAMatrix(WGMMAType.Accumulator, shape=[128], ty=T.f32())
        # CHECK: TraceError: wgmma_matrix.py:[[# @LINE - 1]]: WGMMAMatrix with shape [128]
        # CHECK-NEXT: rule: a matrix has two extents, rows and columns
        # CHECK-NEXT: fix: pass [M, K], [K, N] or [M, N]

    kernel()
