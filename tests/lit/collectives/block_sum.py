# RUN: %python %s | FileCheck %s

"""nv.block.sum: a word of each warp in shared memory, one barrier, and all of them taken by each thread."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128), ptx=True)
def kernel(x):
    t = nv.thread_id.x
    x[t] = nv.block.sum(x[t])
    # CHECK-COUNT-5: nvvm.shfl.sync bfly
    # CHECK: scf.if
    # CHECK: memref.store
    # CHECK: gpu.barrier {nvdsl.collective = "block"} (line [[# @LINE - 4]])
    # CHECK: %[[PARTS:\w+]] = vector.load %{{.*}} : memref<4xi32, #gpu.address_space<workgroup>>, vector<4xi32>
    # CHECK: vector.extract %[[PARTS]][3]
    # CHECK-COUNT-3: arith.addf
    x[t] = nv.block.sum(x[t])
    # CHECK: gpu.barrier {nvdsl.collective = "block"}
    # CHECK-NOT: gpu.barrier


# CHECK-LABEL: .entry kernel
# CHECK: st.shared.b32
# CHECK-NEXT: {{.*}}
# CHECK: bar{{(rier)?}}.sync
# CHECK: ld.shared.v4.b32


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128), block=32)
def one_warp(x):
    x[0] = nv.block.sum(x[0])
    # CHECK-COUNT-5: nvvm.shfl.sync bfly
    # CHECK-NOT: gpu.barrier
    # CHECK: gpu.terminator


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 512), block=512)
def many_warps(x):
    x[0] = nv.block.sum(x[0])
    # CHECK-COUNT-5: nvvm.shfl.sync bfly
    # CHECK: gpu.barrier
    # CHECK-COUNT-4: nvvm.shfl.sync bfly
    # CHECK-NOT: nvvm.shfl.sync
    # CHECK: gpu.terminator


@refused(array(nv.f32, 128), block=48)
def half_a_warp(x):
    _ = nv.block.sum(x[0])
    # CHECK: TraceError: block_sum.py:[[# @LINE - 1]]: nv.block with 48 threads
    # CHECK-NEXT: rule: the threads of a group are whole warps of 32, or a power of two below
