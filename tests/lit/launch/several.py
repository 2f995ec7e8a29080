# RUN: %python %s | FileCheck %s

"""A host function launches several kernels in order, one of them in a traced loop."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
@show(array(nv.f32, 64), 4, ptx=True)
@nv.jit
def host(x, times):
    @nv.kernel(grid=1, block=64)
    def clear():
        x[nv.thread_id.x] = 0.0

    @nv.kernel(grid=1, block=32)
    def add(i):
        x[nv.thread_id.x] += nv.f32(i)

    clear()
    # CHECK: gpu.launch {{.*}} function(@clear)
    # CHECK: memref.store
    for i in nv.range(times):
        add(i)
    # CHECK: scf.for
    # CHECK: gpu.launch {{.*}} function(@add)
    # CHECK: memref.store


# CHECK: .visible .entry clear(
# CHECK: .reqntid 64, 1, 1
# CHECK: .visible .entry add(
# CHECK: .reqntid 32, 1, 1
