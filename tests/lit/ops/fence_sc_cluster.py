# RUN: %python %s | FileCheck %s

"""fence_sc_cluster: fence.sc.cluster."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.fence_sc_cluster()
    # CHECK: nvvm.fence.sc.cluster (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: fence.sc.cluster;
