# RUN: %python %s | FileCheck %s

"""Scans: log2(width) shuffles from lower lanes, kept where there is such a lane; an exclusive one takes one more."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 32), block=32)
def kernel(x):
    t = nv.thread_id.x
    x[t] = nv.warp.inclusive_sum(x[t], width=2)
    # CHECK: %[[X:\w+]] = memref.load
    # CHECK: %[[BEFORE:\w+]] = nvvm.shfl.sync up %{{.*}}, %[[X]],
    # CHECK: %[[INSIDE:\w+]] = arith.cmpi sge
    # CHECK: %[[SUM:\w+]] = arith.addf %[[BEFORE]], %[[X]]
    # CHECK: arith.select %[[INSIDE]], %[[SUM]], %[[X]]
    x[t] = nv.warp.exclusive_sum(x[t])
    # CHECK-COUNT-6: nvvm.shfl.sync up
    # CHECK: arith.select
    # CHECK-NOT: nvvm.shfl.sync
    # CHECK: gpu.terminator


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 32), array(nv.i32, 32), block=32)
def conditions(x, out):
    t = nv.thread_id.x
    out[t] = nv.warp.inclusive_sum(x[t] > 0.0)
    # CHECK: %[[BALLOT:\w+]] = nvvm.vote.sync ballot
    # CHECK: %[[MINE:\w+]] = arith.andi %[[BALLOT]],
    # CHECK: math.ctpop %[[MINE]]
    # CHECK-NOT: nvvm.shfl.sync
    # CHECK: gpu.terminator
