# RUN: %python %s | FileCheck %s

"""fence_mbarrier_init: fence.mbarrier_init.release.cluster."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.fence_mbarrier_init()
    # CHECK: nvvm.fence.mbarrier.init (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: fence.mbarrier_init.release.cluster;
