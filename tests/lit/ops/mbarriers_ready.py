# RUN: %python %s | FileCheck %s

"""Mbarriers(n, arrivals=...): thread 0 initializes each barrier, fences the inits, and the block waits for it."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(block=(64, 2))
def kernel():
    nv.Mbarriers(2, arrivals=3)
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    # CHECK: %[[FIRST:\w+]] = arith.cmpi eq
    # CHECK: scf.if %[[FIRST]] {
    # CHECK: %[[ZERO:\w+]] = arith.constant 0 : index
    # CHECK: %[[COUNT:\w+]] = arith.constant 3 : index
    # CHECK: nvgpu.mbarrier.init %[[GROUP]][%[[ZERO]]], %[[COUNT]] : {{.*}}(line [[# @LINE - 6]])
    # CHECK: %[[ONE:\w+]] = arith.constant 1 : index
    # CHECK: nvgpu.mbarrier.init %[[GROUP]][%[[ONE]]]
    # CHECK-NOT: nvgpu.mbarrier.init
    # CHECK: nvvm.fence.mbarrier.init
    # CHECK-NEXT: }
    # CHECK-NEXT: gpu.barrier


# CHECK-LABEL: gpu.launch
@show()
def without_sync():
    nv.Mbarriers(1, arrivals=1, sync=False)
    # CHECK: nvvm.fence.mbarrier.init
    # CHECK-NOT: gpu.barrier
    # CHECK: gpu.terminator


@refused()
def no_arrivals():
    nv.Mbarriers(1, arrivals=0)
    # CHECK: TraceError: mbarriers_ready.py:[[# @LINE - 1]]: mbarrier.init with 0 arrivals
