# RUN: %python %s | FileCheck %s

"""A warp's accumulator to memory: stmatrix of 16-bit elements, transposed for the transposed view, else vectors."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True, block=32)
def by_stmatrix():
    tile = nv.smem((16, 32), nv.bf16, swizzle=64)
    nv.warp_accumulator(16, 16).store(tile, (0, 8))
    # CHECK: nvvm.convert.f32x2.to.bf16x2
    # CHECK: nvvm.stmatrix {{.*}}<row>
    # CHECK: stmatrix.sync.aligned.m8n8.x4.shared.b16


# CHECK-LABEL: gpu.launch
@show(block=32)
def transposed():
    tile = nv.smem((16, 32), nv.f16, swizzle=64)
    nv.warp_accumulator(32, 16).store(tile.T)
    # CHECK-COUNT-2: nvvm.stmatrix {{.*}}<col>


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 16, 8), block=32)
def by_vectors(d):
    nv.warp_accumulator(16, 8).store(d, (0, 0))
    # CHECK-COUNT-2: vector.store {{.*}} memref<16x8xf32>, vector<2xf32>


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 16, 9), block=32)
def by_elements(d):
    nv.warp_accumulator(16, 8).store(d, (0, 1))
    # CHECK-COUNT-4: memref.store {{.*}} memref<16x9xf16>
