# RUN: %python %s | FileCheck %s

"""argmax: the maximum first, then the least index of the lanes that have it, which is one redux.sync."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 32), array(nv.i32, 32), block=32)
def kernel(x, out):
    t = nv.thread_id.x
    out[t] = nv.warp.argmax(x[t])
    # CHECK-COUNT-5: nvvm.shfl.sync bfly
    # CHECK: %[[BEST:\w+]] = arith.maxnumf
    # CHECK: arith.cmpf oeq, %{{\w+}}, %[[BEST]]
    # CHECK: arith.cmpf une, %[[BEST]], %[[BEST]]
    # CHECK: arith.select
    # CHECK: nvvm.redux.sync min
    # CHECK-NOT: nvvm.shfl.sync
    # CHECK: gpu.terminator


@refused(array(nv.f32, 32), block=32)
def three(x):
    _ = nv.warp.argmax((x[0], x[1], x[2]))
    # CHECK: TraceError: warp_argmax.py:[[# @LINE - 1]]: nv.warp.argmax of
    # CHECK-NEXT: rule: it takes a number, or a pair of a number and an integer
