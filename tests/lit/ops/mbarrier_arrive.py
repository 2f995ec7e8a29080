# RUN: %python %s | FileCheck %s

"""mbarrier.arrive: every thread that comes by arrives once."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    barrier = nv.Mbarriers(1)[0]
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    # CHECK: %[[ZERO:\w+]] = arith.constant 0 : index
    barrier.arrive()
    # CHECK-NEXT: nvgpu.mbarrier.arrive %[[GROUP]][%[[ZERO]]] : {{.*}}(line [[# @LINE - 1]])
    # CHECK-NOT: scf.if
    # CHECK: gpu.terminator


# CHECK-LABEL: .entry kernel
# CHECK: mbarrier.arrive.shared.b64 {{.*}}, [__dynamic_shmem__0];
