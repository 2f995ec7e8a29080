# RUN: %python %s | FileCheck %s

"""thread_id, block_id, block_dim and grid_dim: i32 values, read where they are written."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64), ptx=True, grid=(2, 3), block=(8, 4, 2))
def kernel(out):
    z = nv.thread_id.z
    # CHECK: %[[Z:\w+]] = gpu.thread_id z (line [[# @LINE - 1]])
    # CHECK: arith.index_cast %[[Z]] : index to i32
    out[z] = nv.block_id.y
    # CHECK: gpu.block_id y
    out[z + 1] = nv.block_dim.x
    # CHECK: gpu.block_dim x
    out[z + 2] = nv.grid_dim.y
    # CHECK: gpu.grid_dim y


# CHECK-LABEL: .entry kernel
# CHECK: .reqntid 8, 4, 2
# CHECK-DAG: %tid.z;
# CHECK-DAG: %ctaid.y;


@refused()
@nv.jit
def on_the_host():
    nv.thread_id.x
    # CHECK: TraceError: thread_ids.py:[[# @LINE - 1]]: a thread or block id was used outside of a kernel
    # CHECK-NEXT: rule: device operations are traced inside a function decorated with @nv.kernel(...)
    # CHECK-NEXT: fix: call it in the kernel's body, inside a host function decorated with @nv.jit
