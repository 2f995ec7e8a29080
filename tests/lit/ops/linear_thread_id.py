# RUN: %python %s | FileCheck %s

"""linear_thread_id, lane_id and warpgroup_thread count the threads x first, and read only the axes that are there."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 256), block=256)
def kernel(out):
    out[nv.linear_thread_id()] = 0
    # CHECK: gpu.thread_id x (line [[# @LINE - 1]])
    # CHECK-NOT: gpu.thread_id y
    out[nv.lane_id()] = 0
    # CHECK: %[[LANES:\w+]] = arith.constant 31 : i32
    # CHECK: arith.andi %{{.*}}, %[[LANES]] : i32 (line [[# @LINE - 2]])
    out[nv.warpgroup_thread()] = 0
    # CHECK: %[[THREADS:\w+]] = arith.constant 127 : i32
    # CHECK: arith.andi %{{.*}}, %[[THREADS]] : i32


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 256), block=(16, 4, 4))
def three_axes(out):
    out[nv.linear_thread_id()] = 0
    # CHECK: gpu.thread_id x
    # CHECK: gpu.thread_id y
    # CHECK: %[[X:\w+]] = arith.constant 16 : i32
    # CHECK: arith.muli %{{.*}}, %[[X]]
    # CHECK: gpu.thread_id z
    # CHECK: %[[XY:\w+]] = arith.constant 64 : i32
    # CHECK: arith.muli %{{.*}}, %[[XY]]
