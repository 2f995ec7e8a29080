# RUN: %python %s | FileCheck %s

"""mbarrier.expect_tx: expects bytes without arriving."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    barrier = nv.Mbarriers(1)[0]
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    barrier.expect_tx(96)
    # CHECK: %[[ADDRESS:\w+]] = nvgpu.mbarrier.get %[[GROUP]][
    # CHECK: %[[POINTER:\w+]] = llvm.inttoptr %[[ADDRESS]] : i64 to !llvm.ptr<3>
    # CHECK: %[[BYTES:\w+]] = arith.constant 96 : i32
    # CHECK: nvvm.mbarrier.expect_tx %[[POINTER]], %[[BYTES]] : {{.*}}(line [[# @LINE - 4]])


# CHECK-LABEL: .entry kernel
# CHECK: mbarrier.expect_tx.relaxed.cta.shared.b64 [__dynamic_shmem__0],


@refused()
def negative():
    nv.Mbarriers(1)[0].expect_tx(-8)
    # CHECK: TraceError: expect_tx.py:[[# @LINE - 1]]: an mbarrier that expects -8 bytes
    # CHECK-NEXT: rule: an mbarrier's transaction count is 0 to 1048575 bytes
