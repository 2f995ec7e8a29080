# RUN: %python %s | FileCheck %s

"""tile.vector and tile.store_vector: neighbouring columns of a row, through the swizzle, as one access."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    tile = nv.smem((32, 64), nv.f16, swizzle=128)
    v = tile.vector((nv.thread_id.x % 32, 8), 8)
    # CHECK: %[[AT:\w+]] = memref.view {{.*}} to memref<8xf16, #gpu.address_space<workgroup>>
    # CHECK: %[[V:\w+]] = vector.load %[[AT]][%{{.*}}] {alignment = 16 : i64} {{.*}}, vector<8xf16> (line [[# @LINE - 2]])
    tile.store_vector(v.to(nv.f32)[:4], (0, 4))
    # CHECK: arith.truncf {{.*}} : vector<4xf32> to vector<4xf16>
    # CHECK: vector.store {{.*}} {alignment = 8 : i64}


@refused()
def transposed():
    nv.smem((32, 64), nv.f16, swizzle=128).T.vector((0, 0), 8)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of the transposed view of a tile
    # CHECK: fix: take the vector from the tile itself, or element by element


@refused()
def across_units():
    nv.smem((32, 64), nv.f16, swizzle=128).vector((nv.thread_id.x % 32, 4), 8)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 8 x f16 (16 bytes) at a multiple of 16 bytes, plus 8: no multiple of 16


@refused()
def padded_rows():
    nv.smem((32, 36), nv.f16).vector((nv.thread_id.x % 32, 8), 8)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 8 x f16 (16 bytes) in rows that are 72 bytes apart
