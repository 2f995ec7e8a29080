# RUN: %python %s | FileCheck %s

"""mlir_gpu_launch: gpu.launch with the sizes and the shared memory that the program says; index ids and loops."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.thin import NVDSL, T, get_dynamic_shared_memory, gpu, memref


# CHECK-LABEL: func.func @host
@show(array(nv.f32, 64), ptx=True)
@NVDSL.mlir_func
def host(x):
    @NVDSL.mlir_gpu_launch(grid=(2, 1, 1), block=(64, 1, 1), smem=256)
    def kernel():
        i = gpu.block_id(gpu.Dimension.x) * 32 + gpu.thread_id(gpu.Dimension.x)
        # CHECK: %[[BYTES:\w+]] = arith.constant 256 : i32
        # CHECK: gpu.launch {{.*}} dynamic_shared_memory_size %[[BYTES]]
        # CHECK: arith.muli %{{.*}} : index (line [[# @LINE - 3]])
        memref.store(memref.load(x, [i]) * 2.0, x, [i])
        # CHECK: memref.store {{.*}}(line [[# @LINE - 1]])

    kernel()


# CHECK-LABEL: .entry kernel
# CHECK: .reqntid 64, 1, 1


@refused()
@NVDSL.mlir_func
def block_too_large():
    @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(2048, 1, 1))
    def kernel():
        pass

    kernel()
    # CHECK: TraceError: launch.py:[[# @LINE - 1]]: a block of 2048 x 1 x 1 = 2048 threads


@refused()
@NVDSL.mlir_func
def behind_the_shared_memory():
    @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(128, 1, 1), smem=1024)
    def kernel():
        get_dynamic_shared_memory((128,), T.f32(), 768)
        # CHECK: VerifyError: launch.py:[[# @LINE - 1]]: bytes 768 to 1,280 of shared memory are used, and the kernel has 1,024
        # CHECK-NEXT: rule: a kernel's shared memory is what nv.smem allocates, or the smem= of a mlir_gpu_launch
        # CHECK-NEXT: fix: allocate with nv.smem, or launch with a larger smem=

    kernel()
