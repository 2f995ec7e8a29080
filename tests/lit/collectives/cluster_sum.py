# RUN: %python %s | FileCheck %s

"""nv.cluster.sum: a lane for each block stores its warp's word there, and one barrier of the cluster follows."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128), grid=4, cluster=4, ptx=True)
def kernel(x):
    # CHECK: nvvm.cluster.arrive
    t = nv.thread_id.x
    x[t] = nv.cluster.sum(x[t])
    # CHECK: memref.load
    # CHECK: nvvm.cluster.wait
    # CHECK-COUNT-5: nvvm.shfl.sync bfly
    # CHECK: scf.if
    # CHECK: %[[PEER:\w+]] = nvvm.mapa %{{\w+}}, %{{\w+}} : !llvm.ptr<3> -> !llvm.ptr<7>
    # CHECK: llvm.store %{{\w+}}, %[[PEER]]
    # CHECK: nvvm.cluster.arrive {{.*}}nvdsl.collective = "cluster"
    # CHECK: nvvm.cluster.wait {{.*}}nvdsl.collective = "cluster"
    # CHECK-COUNT-4: nvvm.shfl.sync bfly
    # CHECK-NOT: nvvm.cluster
    # CHECK: gpu.terminator


# CHECK-LABEL: .entry kernel
# CHECK: mapa.shared::cluster
# CHECK: st.shared::cluster.b32


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128), grid=4, cluster=4)
def where_the_barrier_is_used_before(x):
    # CHECK: nvvm.cluster.arrive
    # CHECK-NEXT: nvvm.cluster.wait
    t = nv.thread_id.x
    nv.cluster_sync()
    # CHECK: nvvm.cluster.arrive {{.*}}(line [[# @LINE - 1]])
    x[t] = nv.cluster.sum(x[t])
    # CHECK: nvvm.shfl.sync
