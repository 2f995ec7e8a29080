# RUN: %python %s | FileCheck %s

"""Sums and extremes of integers of up to 32 bits over a whole mask are one redux.sync; over parts of it, shuffles."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 32), array(nv.u32, 32), array(nv.i8, 32), block=32, ptx=True)
def kernel(x, u, b):
    t = nv.thread_id.x
    x[t] = nv.warp.sum(x[t])
    # CHECK: nvvm.redux.sync add %{{.*}} : i32 -> i32 (line [[# @LINE - 1]])
    u[t] = nv.warp.max(u[t])
    # CHECK: nvvm.redux.sync umax
    b[t] = nv.warp.min(b[t])
    # CHECK: arith.extsi %{{\w+}} : i8 to i32
    # CHECK: nvvm.redux.sync min
    # CHECK: arith.trunci %{{\w+}} : i32 to i8
    if t < 8:
        x[t] = nv.warp.sum(x[t], width=8, mask=0xFF)
        # CHECK: %[[MASK:\w+]] = arith.constant 255 : i32
        # CHECK: nvvm.redux.sync add %{{\w+}}, %[[MASK]]
    x[t] = nv.warp.sum(x[t], width=8)
    # CHECK-COUNT-3: nvvm.shfl.sync bfly


# CHECK-LABEL: .entry kernel
# CHECK: redux.sync.add.s32
# CHECK: redux.sync.max.u32
# CHECK: redux.sync.min.s32
