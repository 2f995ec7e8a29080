# RUN: %python %s | FileCheck %s

"""Groups of a block meet at named barriers, counted from the highest number down."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 256), block=256)
def kernel(x):
    t = nv.thread_id.x
    if nv.warpgroup_id() == 0:
        # CHECK: scf.if
        x[t] = nv.warpgroup.sum(x[t])
        # CHECK: %[[FIRST:\w+]] = arith.constant 14 : i32
        # CHECK: %[[NUMBER:\w+]] = arith.addi
        # CHECK: nvvm.barrier id = %[[NUMBER]] number_of_threads = %{{\w+}} {nvdsl.collective = "128 threads"}
    x[t] = nv.block.sum(x[t], width=64)
    # CHECK: arith.constant 10 : i32
    # CHECK: nvvm.barrier {{.*}} {nvdsl.collective = "64 threads"}


@refused(array(nv.f32, 128), block=1024)
def too_many(x):
    _ = nv.block.sum(x[0], width=64)
    # CHECK: TraceError: block_parts.py:[[# @LINE - 1]]: 16 groups of 64 threads need named barriers 0 to 15
    # CHECK-NEXT: rule: a block has 16 barriers (PTX ISA, barrier): 0 is sync_threads


@refused(array(nv.f32, 128), block=256)
def taken(x):
    nv.named_barrier_sync(15, 256)
    _ = nv.warpgroup.sum(x[0])
    # CHECK: TraceError: block_parts.py:[[# @LINE - 1]]: 2 groups of 128 threads need named barriers 14 to 15: the kernel
    # CHECK-SAME: uses number 15 itself


@refused(array(nv.f32, 128), block=256)
def taken_later(x):
    _ = nv.warpgroup.sum(x[0])
    nv.named_barrier_sync(15, 256)
    # CHECK: TraceError: block_parts.py:[[# @LINE - 1]]: named barrier 15, which a collective of a part of the block


@refused(array(nv.f32, 128), block=96)
def no_warpgroup(x):
    _ = nv.warpgroup.sum(x[0])
    # CHECK: TraceError: block_parts.py:[[# @LINE - 1]]: nv.warpgroup in a block of 96 threads


@refused(array(nv.f32, 128), block=256)
def small_scratch(x):
    _ = nv.block.sum((x[0], x[1]), scratch=nv.smem(8, nv.i32))
    # CHECK: TraceError: block_parts.py:[[# @LINE - 1]]: nv.block with scratch=Array(shape=(8{{,?}}), dtype=i32)
    # CHECK-NEXT: rule: this use needs an array of 16 x 32 bits in shared memory
