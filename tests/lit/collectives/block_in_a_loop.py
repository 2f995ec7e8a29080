# RUN: %python %s | FileCheck %s

"""In a loop scratch is overwritten behind a barrier: one more, unless another collective of the round has one."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128))
def alone(x):
    t = nv.thread_id.x
    for i in nv.range(3):
        # CHECK: scf.for
        x[t] = nv.block.sum(x[t])
        # CHECK: gpu.barrier {nvdsl.collective = "block before"}
        # CHECK: gpu.barrier {nvdsl.collective = "block"}
    # CHECK: gpu.terminator


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128))
def two(x):
    t = nv.thread_id.x
    for i in nv.range(3):
        # CHECK: scf.for
        # CHECK-NOT: block before
        x[t] = nv.block.sum(x[t])
        # CHECK: gpu.barrier {nvdsl.collective = "block"}
        # CHECK-NOT: block before
        x[t] = nv.block.max(x[t])
        # CHECK: gpu.barrier {nvdsl.collective = "block"}
    # CHECK: gpu.terminator


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128))
def in_a_branch_of_the_loop(x):
    t = nv.thread_id.x
    for i in nv.range(3):
        x[t] = nv.block.sum(x[t])
        # CHECK: gpu.barrier {nvdsl.collective = "block before"}
        # CHECK: gpu.barrier {nvdsl.collective = "block"}
        if i > 1:
            # CHECK: scf.if
            x[t] = nv.block.max(x[t])
            # CHECK: gpu.barrier {nvdsl.collective = "block before"}
            # CHECK: gpu.barrier {nvdsl.collective = "block"}


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128))
def shared_scratch(x):
    t = nv.thread_id.x
    scratch = nv.smem(4, nv.i32)
    x[t] = nv.block.sum(x[t], scratch=scratch)
    # CHECK: gpu.barrier {nvdsl.collective = "block shared"}
    # CHECK: gpu.barrier {nvdsl.collective = "block"}
