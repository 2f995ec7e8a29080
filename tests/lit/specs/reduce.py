# RUN: %python %s | FileCheck %s

"""A reduction over the threads of a group: redux.sync, a butterfly of shuffles by the group's layout, or the block."""

from show import array, show

import nvdsl as nv
from nvdsl.layout import Layout


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64), block=64)
def of_integers_in_a_warp(x):
    t = nv.thread_id.x
    x[t] = nv.spec.reduce("max", x[t], nv.spec.threads().tile(32))()
    # CHECK: nvvm.redux.sync {{.*}}max


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64), block=64)
def of_lanes_of_both_halves(x):
    t = nv.thread_id.x
    group = nv.spec.threads().tile(32).tile(Layout((2, 2), (1, 16)))
    x[t] = nv.spec.reduce("sum", x[t], group)()
    # CHECK: %[[ONE:.*]] = arith.constant 1 : i32
    # CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %[[ONE]],
    # CHECK: %[[SIXTEEN:.*]] = arith.constant 16 : i32
    # CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %[[SIXTEEN]],


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64), block=64)
def of_a_block(x):
    t = nv.thread_id.x
    x[t] = nv.spec.reduce("sum", x[t], nv.spec.threads())()
    # CHECK-COUNT-5: nvvm.shfl.sync bfly
    # CHECK: gpu.barrier


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 16, 8), block=32)
def along_the_rows_of_registers(x):
    warp = nv.spec.threads()
    held = nv.spec.move(x, nv.layout.mma_c(16, 8), warp)()
    sums = nv.spec.reduce("sum", held, warp, axis=1)()
    # Two rows a lane: the quad's four lanes have the rest of each.
    # CHECK-COUNT-4: nvvm.shfl.sync bfly
    x[0, 0] = sums[0]
