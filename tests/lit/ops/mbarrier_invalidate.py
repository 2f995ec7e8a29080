# RUN: %python %s | FileCheck %s

"""mbarrier.inval: the memory of the mbarrier may hold something else from now on."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.Mbarriers(2)[1].invalidate()
    # CHECK: %[[ADDRESS:\w+]] = nvgpu.mbarrier.get
    # CHECK: %[[POINTER:\w+]] = llvm.inttoptr %[[ADDRESS]] : i64 to !llvm.ptr<3>
    # CHECK: nvvm.mbarrier.inval %[[POINTER]] : !llvm.ptr<3> (line [[# @LINE - 3]])


# CHECK-LABEL: .entry kernel
# CHECK: mbarrier.inval.shared.b64 [__dynamic_shmem__0+8];
