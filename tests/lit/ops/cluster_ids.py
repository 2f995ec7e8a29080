# RUN: %python %s | FileCheck %s

"""cluster_id, cluster_block_id and cluster_dim read three ids, cluster_rank the linear one; all are i32."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch clusters
# CHECK-SAME: @kernel
@show(array(nv.i32, 5), ptx=True, grid=(4, 2), cluster=(2, 2))
def kernel(out):
    out[0] = nv.cluster_id.x
    # CHECK: %[[ID:\w+]] = gpu.cluster_id x (line [[# @LINE - 1]])
    # CHECK: %[[I:\w+]] = arith.index_cast %[[ID]] : index to i32
    # CHECK: memref.store %[[I]],
    out[1] = nv.cluster_block_id.y
    # CHECK: gpu.cluster_block_id y
    out[2] = nv.cluster_dim.x * nv.cluster_dim.z
    # CHECK: gpu.cluster_dim_blocks x
    # CHECK: gpu.cluster_dim_blocks z
    out[3] = nv.cluster_rank()
    # CHECK: %[[RANK:\w+]] = nvvm.read.ptx.sreg.cluster.ctarank : i32 (line [[# @LINE - 1]])
    # CHECK: memref.store %[[RANK]],


# CHECK-LABEL: .entry kernel
# CHECK: .reqnctapercluster 2, 2, 1
# CHECK-DAG: %clusterid.x;
# CHECK-DAG: %cluster_ctaid.y;
# CHECK-DAG: %cluster_ctarank;


@refused()
@nv.jit
def on_the_host():
    nv.cluster_id.x
    # CHECK: TraceError: cluster_ids.py:[[# @LINE - 1]]: a thread or block id was used outside of a kernel
