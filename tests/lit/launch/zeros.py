# RUN: %python %s | FileCheck %s

"""nv.zeros in a host function; what its kernels leave as zeros says so, and to what they add in turn."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
@show(array(nv.i32, 64))
@nv.jit
def host(x):
    sums = nv.zeros(64, nv.i32)
    # CHECK: %[[SUMS:.*]] = gpu.alloc () : memref<64xi32> {{.*}}(line [[# @LINE - 1]])
    # CHECK: gpu.memset %[[SUMS]], %{{[^{]*$}}
    counter = nv.zeros((1,), nv.i32, restored=True)
    # CHECK: %[[COUNTER:.*]] = gpu.alloc () : memref<1xi32>
    # CHECK: gpu.memset %[[COUNTER]], %{{.*}} {nvdsl.restored}

    total = nv.empty(1, nv.f32, in_turn=True)
    # CHECK: gpu.alloc () {nvdsl.in_turn} : memref<1xf32>

    @nv.kernel(grid=1, block=64)
    def add():
        sums[nv.thread_id.x] = counter.atomic_inc(0, 63)
        total.atomic_add(0, 1.0)
        x[nv.thread_id.x] = sums[nv.thread_id.x]

    add()
