# RUN: %python %s | FileCheck %s

"""any and all of a warp are one vote; of smaller groups a ballot, of which each group looks at its own bits."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 32), block=32)
def kernel(x):
    t = nv.thread_id.x
    if nv.warp.any(x[t] > 3):
        # CHECK: nvvm.vote.sync any
        x[t] = 1
    if nv.warp.all(x[t] > 3, width=8):
        # CHECK: %[[BALLOT:\w+]] = nvvm.vote.sync ballot
        # CHECK: %[[MOVED:\w+]] = arith.shrsi %[[BALLOT]]
        # CHECK: arith.andi %[[MOVED]]
        x[t] = 2
