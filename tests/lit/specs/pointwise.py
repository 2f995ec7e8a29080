# RUN: %python %s | FileCheck %s

"""A pointwise operation: of two 16-bit floats at a time in registers, and of the widest vectors of memory."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 16, 8), ptx=True, block=32)
def of_registers(x):
    warp = nv.spec.threads()
    held = nv.spec.move(x, nv.layout.mma_c(16, 8), warp)()
    doubled = nv.spec.pointwise(lambda a: a + a, [held], threads=warp)()
    # CHECK-COUNT-2: arith.addf {{.*}} : vector<2xf16>
    nv.spec.move(doubled, x, warp)()
    # CHECK-COUNT-2: vector.store
    # CHECK: add.{{(rn.)?}}f16x2


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 16, 8), array(nv.f32, 16, 8), block=32)
def of_memory(x, y):
    nv.spec.pointwise(lambda a, b: a * b, [x, y], y, threads=nv.spec.threads())()
    # CHECK-COUNT-2: vector.load {{.*}} vector<4xf32>
    # CHECK-COUNT-4: arith.mulf
    # CHECK: vector.store {{.*}} vector<4xf32>
