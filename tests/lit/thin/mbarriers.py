# RUN: %python %s | FileCheck %s

"""Mbarriers in LLVM's style: the groups stay apart, and behind the inits a fence and a block barrier are put, unless the
program has one."""

from show import show

from nvdsl.thin import NVDSL, Mbarriers, T, const, gpu


# CHECK-LABEL: func.func @host
@show()
@NVDSL.mlir_func
def host():
    @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(128, 1, 1))
    def kernel():
        full, empty = Mbarriers(number_of_barriers=2), Mbarriers(number_of_barriers=2)
        # CHECK: %[[FULL:\w+]] = nvgpu.mbarrier.create
        # CHECK: %[[EMPTY:\w+]] = nvgpu.mbarrier.create
        first = gpu.thread_id(gpu.Dimension.x) == 0
        # CHECK: arith.cmpi eq
        a, b = full[0], full[1]
        # CHECK: %[[ZERO:\w+]] = arith.constant 0 : index
        # CHECK: %[[ONE:\w+]] = arith.constant 1 : index
        a.init(1, predicate=first)
        # CHECK: nvgpu.mbarrier.init %[[FULL]][%[[ZERO]]],
        empty[1].init(1, predicate=first)
        # CHECK: nvgpu.mbarrier.init %[[EMPTY]][
        # CHECK-NEXT: nvvm.fence.mbarrier.init (line [[# @LINE - 2]])
        # CHECK-NEXT: gpu.barrier
        b.try_wait(phase=const(False, ty=T.bool()))
        # CHECK: nvgpu.mbarrier.try_wait.parity %[[FULL]][%[[ONE]]],
        # CHECK-NOT: gpu.barrier
        # CHECK: gpu.terminator

    kernel()


# CHECK-LABEL: func.func @host
@show()
@NVDSL.mlir_func
def host():  # noqa: F811
    @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(128, 1, 1))
    def kernel():
        group = Mbarriers()
        group[0].init(1, predicate=gpu.thread_id(gpu.Dimension.x) == 0)
        gpu.barrier()
        # CHECK: nvgpu.mbarrier.init
        # CHECK-NOT: nvvm.fence
        # CHECK: gpu.barrier (line [[# @LINE - 3]])
        # CHECK-NEXT: gpu.terminator

    kernel()
