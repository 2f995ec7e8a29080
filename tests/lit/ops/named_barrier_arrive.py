# RUN: %python %s | FileCheck %s

"""named_barrier_arrive: counts the warp at a named barrier without waiting there."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.named_barrier_arrive(2, 96)
    # CHECK-DAG: %[[TWO:\w+]] = arith.constant 2 : i32
    # CHECK-DAG: %[[THREADS:\w+]] = arith.constant 96 : i32
    # CHECK: nvvm.barrier.arrive id = %[[TWO]] number_of_threads = %[[THREADS]] (line [[# @LINE - 3]])


# CHECK-LABEL: .entry kernel
# CHECK: bar.arrive 2, 96;


@refused()
def no_such_barrier():
    nv.named_barrier_arrive(-1, 128)
    # CHECK: TraceError: named_barrier_arrive.py:[[# @LINE - 1]]: named barrier -1


@refused()
def no_threads():
    nv.named_barrier_arrive(1, 0)
    # CHECK: TraceError: named_barrier_arrive.py:[[# @LINE - 1]]: a named barrier of 0 threads
