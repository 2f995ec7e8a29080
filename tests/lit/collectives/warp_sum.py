# RUN: %python %s | FileCheck %s

"""nv.warp.sum of floats: a butterfly of shuffles, log2(width) of them; f16 is summed in f32 and rounded once."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 32), array(nv.f16, 32), block=32, ptx=True)
def kernel(x, y):
    t = nv.thread_id.x
    x[t] = nv.warp.sum(x[t], width=4)
    # CHECK: %[[X:\w+]] = memref.load
    # CHECK: %[[A:\w+]] = nvvm.shfl.sync bfly %{{.*}}, %[[X]],
    # CHECK: %[[S:\w+]] = arith.addf %[[X]], %[[A]] : f32 (line [[# @LINE - 3]])
    # CHECK: %[[B:\w+]] = nvvm.shfl.sync bfly %{{.*}}, %[[S]],
    # CHECK: arith.addf %[[S]], %[[B]] : f32
    # CHECK-NOT: nvvm.shfl.sync
    y[t] = nv.warp.sum(y[t])
    # CHECK: %[[WIDE:\w+]] = arith.extf %{{\w+}} : f16 to f32
    # CHECK-COUNT-5: nvvm.shfl.sync bfly
    # CHECK: arith.truncf %{{\w+}} : f32 to f16


# CHECK-LABEL: .entry kernel
# CHECK-COUNT-7: shfl.sync.bfly.b32
# CHECK-NOT: shfl.sync
# CHECK: ret;
