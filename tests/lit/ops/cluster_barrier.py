# RUN: %python %s | FileCheck %s

"""cluster_arrive, relaxed or not, and cluster_wait; cluster_sync is both."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True, grid=2, cluster=2)
def kernel():
    nv.cluster_arrive(relaxed=True)
    # CHECK: nvvm.cluster.arrive.relaxed {aligned} (line [[# @LINE - 1]])
    nv.cluster_wait()
    # CHECK: nvvm.cluster.wait {aligned} (line [[# @LINE - 1]])
    nv.cluster_arrive()
    # CHECK: nvvm.cluster.arrive {aligned} (line [[# @LINE - 1]])
    nv.cluster_wait()
    # CHECK: nvvm.cluster.wait {aligned}
    nv.cluster_sync()
    # CHECK: nvvm.cluster.arrive {aligned} (line [[# @LINE - 1]])
    # CHECK-NEXT: nvvm.cluster.wait {aligned} (line [[# @LINE - 2]])


# CHECK-LABEL: .entry kernel
# CHECK: barrier.cluster.arrive.relaxed.aligned;
# CHECK: barrier.cluster.wait.aligned;
# CHECK: barrier.cluster.arrive.aligned;
# CHECK: barrier.cluster.wait.aligned;
