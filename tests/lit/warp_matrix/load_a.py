# RUN: %python %s | FileCheck %s

"""load_a: ldmatrix.x4 of a swizzled tile, transposed for the transposed view; vectors where rows don't allow it."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True, block=32)
def as_it_lies():
    tile = nv.smem((16, 64), nv.f16, swizzle=128)
    acc = nv.warp_accumulator(16, 8)
    acc += nv.load_a(tile, (0, 16), (16, 16)) @ nv.load_b(tile, (0, 0), (16, 8))
    # CHECK: %[[A:\w+]] = nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>{{.*}}num = 4{{.*}} (line [[# @LINE - 1]])
    # CHECK: %[[FIRST:\w+]] = llvm.extractvalue %[[A]][0]
    # CHECK: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>{{.*}}num = 2
    # CHECK: llvm.bitcast %[[FIRST]] : i32 to vector<2xf16>
    # CHECK: nvvm.mma.sync


# CHECK-LABEL: gpu.launch
@show(block=32)
def transposed():
    nv.load_a(nv.smem((16, 64), nv.bf16, swizzle=128).T, (16, 0), (16, 16))
    # CHECK: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>{{.*}}num = 4


# CHECK-LABEL: gpu.launch
@show(block=32)
def eight_bits():
    nv.load_a(nv.smem((16, 32), nv.e4m3, swizzle=32))
    # CHECK: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>{{.*}}num = 4


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 16, 16), block=32)
def from_global_memory(x):
    nv.load_a(x)
    # CHECK-COUNT-4: vector.load {{.*}} memref<16x16xf16>, vector<2xf16>


@refused(block=32)
def rows_of_40_bytes():
    nv.load_a(nv.smem((16, 20), nv.f16), (0, 0), (16, 16), using="ldmatrix")
    # CHECK: TraceError: load_a.py:[[# @LINE - 1]]: registers of a warp from 16x16 f16 at (0, 0) of Tile((16, 20), f16, swizzle=0) using 'ldmatrix'
    # CHECK-NEXT: rule: ldmatrix: rows start at multiples of 40 bytes as far as is known while tracing, not of 16
    # CHECK-NEXT: fix: leave `using` out
