# RUN: %python %s | FileCheck %s

"""wgmma_fence: orders registers and shared memory before the wgmmas that follow."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.wgmma_fence()
    # CHECK: nvvm.wgmma.fence.aligned (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.fence.sync.aligned;
