# RUN: %python %s | FileCheck %s

"""named_barrier_sync: barrier 1 to 15, by an int or a uniform traced value, and the threads that meet there."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True, block=256)
def kernel():
    # CHECK: nvvm.shfl.sync idx
    nv.named_barrier_sync(3, 64)
    # CHECK: %[[THREE:\w+]] = arith.constant 3 : i32
    # CHECK: %[[THREADS:\w+]] = arith.constant 64 : i32
    # CHECK: nvvm.barrier id = %[[THREE]] number_of_threads = %[[THREADS]] (line [[# @LINE - 3]])
    nv.named_barrier_sync(1 + nv.warpgroup_id(), 128)
    # CHECK: %[[OWN:\w+]] = arith.addi
    # CHECK: nvvm.barrier id = %[[OWN]] number_of_threads =


# CHECK-LABEL: .entry kernel
# CHECK: bar.sync 3, 64;
# CHECK: bar.sync %r{{.*}}, 128;


@refused()
def no_such_barrier():
    nv.named_barrier_sync(16, 128)
    # CHECK: TraceError: named_barrier_sync.py:[[# @LINE - 1]]: named barrier 16
    # CHECK-NEXT: rule: a block has named barriers 0 to 15; 0 is sync_threads (PTX ISA, barrier)
    # CHECK-NEXT: fix: number the barriers from 1


@refused()
def part_of_a_warp():
    nv.named_barrier_sync(1, 48)
    # CHECK: TraceError: named_barrier_sync.py:[[# @LINE - 1]]: a named barrier of 48 threads
    # CHECK-NEXT: rule: the thread count is a positive multiple of the warp size, 32 (PTX ISA, barrier)
    # CHECK-NEXT: fix: count whole warps


@refused(block=128)
def more_than_the_block():
    nv.named_barrier_sync(1, 256)
    # CHECK: TraceError: named_barrier_sync.py:[[# @LINE - 1]]: a named barrier of 256 threads in a block of 128
    # CHECK-NEXT: rule: the barrier waits for that many threads of the block (PTX ISA, barrier); more never come
    # CHECK-NEXT: fix: pass the number of threads that wait and arrive
