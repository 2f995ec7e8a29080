# RUN: %python %s | FileCheck %s

"""test_wait: asks once whether a phase has completed. In a loop it asks again in every pass."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    barrier = nv.Mbarriers(1)[0]
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    while not barrier.test_wait(1):
        # CHECK: scf.while
        # CHECK: %[[PARITY:\w+]] = arith.constant 1 : i32
        # CHECK: %[[ADDRESS:\w+]] = nvgpu.mbarrier.get %[[GROUP]][
        # CHECK: %[[POINTER:\w+]] = llvm.inttoptr %[[ADDRESS]]
        # CHECK: nvvm.mbarrier.test.wait %[[POINTER]], %[[PARITY]] : !llvm.ptr<3>, i32 -> i1 (line [[# @LINE - 5]])
        # CHECK: scf.condition
        nv.nanosleep(20)


# CHECK-LABEL: .entry kernel
# CHECK: [[AGAIN:\$L__BB0_\w+]]:
# CHECK: mbarrier.test_wait.parity.shared.b64
# CHECK: nanosleep.u32 20;
# CHECK: bra{{.*}} [[AGAIN]];
