# RUN: %python %s | FileCheck %s

"""Shuffles move 32 bits: a 64-bit number takes two, two f16 of a vector take one, and so does a bool."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f64, 32), array(nv.f16, 128), block=32)
def kernel(x, h):
    t = nv.thread_id.x
    x[t] = nv.warp.max(x[t], width=2)
    # CHECK: %[[BITS:\w+]] = arith.bitcast %{{\w+}} : f64 to i64
    # CHECK: arith.trunci %[[BITS]] : i64 to i32
    # CHECK: arith.shrui %[[BITS]]
    # CHECK-COUNT-2: nvvm.shfl.sync bfly
    # CHECK: arith.maxnumf
    # CHECK-NOT: nvvm.shfl.sync
    h.store_vector(nv.warp.max(h.load_vector((4 * t,), 4), width=2), (4 * t,))
    # CHECK: vector.bitcast %{{\w+}} : vector<4xf16> to vector<2xi32>
    # CHECK-COUNT-2: nvvm.shfl.sync bfly
    # CHECK: vector.bitcast %{{\w+}} : vector<2xi32> to vector<4xf16>
    # CHECK: arith.maxnumf %{{.*}} : vector<4xf16>
    held = nv.warp.broadcast(t > 3, 5)
    # CHECK: %[[WORD:\w+]] = arith.extui %{{\w+}} : i1 to i32
    # CHECK: nvvm.shfl.sync idx %{{.*}}, %[[WORD]],
    if held:
        x[t] = 0.0
