# RUN: %python %s | FileCheck %s

"""vector and store_vector: 1 to 16 contiguous bytes in one access, aligned to them."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[A:\w+]]: memref<1024xf32>
@show(array(nv.f32, 1024), ptx=True)
def kernel(a):
    v = a.vector(nv.thread_id.x * 4, 4)
    # CHECK: %[[V:\w+]] = vector.load %[[A]][%[[AT:\w+]]] {alignment = 16 : i64} : memref<1024xf32>, vector<4xf32> (line [[# @LINE - 1]])
    a.store_vector(v * 2.0, 512)
    # CHECK: %[[W:\w+]] = arith.mulf %[[V]],
    # CHECK: vector.store %[[W]], %[[A]][%{{.*}}] {alignment = 16 : i64}


# CHECK-LABEL: .entry kernel
# CHECK: ld.global.v4.b32
# CHECK: st.global.v4.b32


@refused(array(nv.f32, 1024))
def too_wide(a):
    a.vector(0, 8)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 8 x f32 (32 bytes), stride 1
    # CHECK-NEXT: rule: one access moves 1, 2, 4, 8 or 16 contiguous bytes (PTX ISA, ld/st)
    # CHECK-NEXT: fix: choose a count that gives at most 16 bytes and an array whose last axis is contiguous


@refused(array(nv.f32, 64, 64, strides=(1, 64)))
def not_contiguous(a):
    a.vector((0, 0), 4)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 4 x f32 (16 bytes), stride 64


@refused(array(nv.f32, 1022))
def over_the_end(a):
    a.store_vector(a.vector(0, 4), 1020)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 4 elements from 1020 on, on an axis of 1022 elements
    # CHECK-NEXT: rule: an access lies within the array


@refused(array(nv.f32, 1024))
def out_of_range(a):
    a.vector(1024, 4)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: index 1024 on an axis of 1024 elements


@refused(array(nv.f32, 1024))
def between(a):
    a.vector(nv.thread_id.x * 4 + 1, 4)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 4 x f32 (16 bytes) at a multiple of 16 bytes, plus 4: no multiple of 16
    # CHECK-NEXT: rule: an access of several elements is aligned to its size (PTX ISA, Addresses as operands)
    # CHECK-NEXT: fix: start at a multiple of 16 bytes, or take fewer elements


@refused(array(nv.f16, 64, 100))
def rows(a):
    a.vector((nv.thread_id.x, 8), 8)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 8 x f16 (16 bytes) in rows that are 200 bytes apart: not every row starts at a multiple of 16
    # CHECK: fix: make rows a multiple of 16 bytes apart, or take vectors of 8 bytes


@refused(array(nv.bool_, 64))
def flags(a):
    a.vector(0, 8)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector access of 8 x bool_
    # CHECK: fix: keep the flags in an array of nv.u8


@refused(array(nv.f16, 64))
def a_number(a):
    a.store_vector(a[0], 0)
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: store_vector of a traced number
    # CHECK-NEXT: rule: it stores a vector: some elements at once
