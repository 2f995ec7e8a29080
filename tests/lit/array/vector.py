# RUN: %python %s | FileCheck %s

"""load_vector and store_vector: 1 to 16 contiguous bytes in one access."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[A:\w+]]: memref<1024xf32>
@show(array(nv.f32, 1024), ptx=True)
def kernel(a):
    v = a.load_vector(nv.thread_id.x * 4, 4)
    # CHECK: %[[V:\w+]] = vector.load %[[A]][%[[AT:\w+]]] {alignment = 16 : i64} : memref<1024xf32>, vector<4xf32> (line [[# @LINE - 1]])
    a.store_vector(v * 2.0, 512)
    # CHECK: %[[W:\w+]] = arith.mulf %[[V]],
    # CHECK: vector.store %[[W]], %[[A]][%{{.*}}] {alignment = 16 : i64}


# CHECK-LABEL: .entry kernel
# CHECK: ld.global.v4.b32
# CHECK: st.global.v4.b32


@refused(array(nv.f32, 1024))
def too_wide(a):
    a.load_vector(0, 8)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 8 x f32 (32 bytes), stride 1
    # CHECK-NEXT: rule: one access moves 1, 2, 4, 8 or 16 contiguous bytes (PTX ISA, ld/st)
    # CHECK-NEXT: fix: choose a count that gives at most 16 bytes and an array whose last axis is contiguous


@refused(array(nv.f32, 64, 64, strides=(1, 64)))
def not_contiguous(a):
    a.load_vector((0, 0), 4)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 4 x f32 (16 bytes), stride 64


@refused(array(nv.f32, 1022))
def over_the_end(a):
    a.store_vector(a.load_vector(0, 4), 1020)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 4 elements from 1020 on, on an axis of 1022 elements
    # CHECK-NEXT: rule: an access lies within the array


@refused(array(nv.f32, 1024))
def out_of_range(a):
    a.load_vector(1024, 4)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: index 1024 on an axis of 1024 elements
