# RUN: %python %s | FileCheck %s

"""tile[i, j] loads and stores one element through the swizzle, whether the indices are known or traced."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64))
def kernel(x):
    tile = nv.smem((64, 128), nv.f16, swizzle=128)
    # Panel 1 (columns 64 to 127) starts at byte 8192; row 3, column 6 of it is byte 396, in unit 0 of the row, which the
    # swizzle puts in the place of unit 3: 8192 + 384 + (0 ^ 3) * 16 + 12.
    tile[3, 70] = x[0]
    # CHECK: %[[WIDE:\w+]] = memref.load
    # CHECK: %[[BYTE:\w+]] = arith.constant 8636 : index
    # CHECK: %[[AT:\w+]] = memref.view %{{.*}}[%[[BYTE]]][]
    # CHECK: %[[NARROW:\w+]] = arith.truncf %[[WIDE]] : f32 to f16
    # CHECK: memref.store %[[NARROW]], %[[AT]][{{.*}}(line [[# @LINE - 5]])
    t = nv.thread_id.x % 64
    x[t] = tile[t, 0]
    # CHECK: gpu.printf "a tile of 64x128 f16" {nvdsl.bounds = array<i64: 64, 128>}, %{{.*}}, %{{.*}} : i32, index
    # CHECK: %[[ROW:\w+]] = arith.muli %{{.*}}, %c128_i32
    # CHECK: arith.xori %[[ROW]],
    # CHECK: %[[LOADED:\w+]] = memref.load {{.*}} : memref<1xf16, #gpu.address_space<workgroup>> (line [[# @LINE - 4]])
    # CHECK: arith.extf %[[LOADED]] : f16 to f32


# A dense tile needs no permutation.
# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64))
def dense(x):
    tile = nv.smem((64, 100), nv.f32)
    x[0] = tile[nv.thread_id.x % 64, 5]
    # CHECK-NOT: arith.xori
    # CHECK: memref.load {{.*}} : memref<1xf32, #gpu.address_space<workgroup>>


@refused()
def out_of_range():
    nv.smem((64, 32), nv.f16)[0, 32]
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: tile index (0, 32) outside of (64, 32)
    # CHECK-NEXT: rule: indices are 0 to extent - 1
    # CHECK-NEXT: fix: check the loop's bounds


@refused()
def negative():
    nv.smem((64, 32), nv.f16)[-1, 0] = 1.0
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: tile index (-1, 0) outside of (64, 32)


@refused()
def one_index():
    nv.smem((64, 32), nv.f16)[5]
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: a tile indexed with 5
    # CHECK-NEXT: rule: an element of a tile has a row and a column
    # CHECK-NEXT: fix: tile[row, col]; a stack of tiles is indexed first: stack[stage][row, col]


@refused()
def three_indices():
    nv.smem((64, 32), nv.f16)[0, 1, 2]
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: 3 indices for a tile


@refused()
def loop():
    for _row in nv.smem((64, 32), nv.f16):
        pass
    # CHECK: TraceError: element.py:[[# @LINE - 2]]: a loop over a tile
    # CHECK-NEXT: rule: a tile's elements are read one by one
    # CHECK-NEXT: fix: for i in nv.range(rows): tile[i, col]
