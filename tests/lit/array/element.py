# RUN: %python %s | FileCheck %s

"""a[i, j] loads and stores, converted to the array's dtype; whether it is signed is the array's, not the memref's."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[A:\w+]]: memref<64x32xf16>
# CHECK-SAME: %[[U:\w+]]: memref<128xi8>
# CHECK-SAME: %[[S:\w+]]: memref<8x4xf32, strided<[16, 2]>>
@show(array(nv.f16, 64, 32), array(nv.u8, 128), array(nv.f32, 8, 4, strides=(16, 2)))
def kernel(a, u, s):
    t = nv.thread_id.x
    # CHECK: %[[T:\w+]] = arith.index_cast %thread_id_x
    x = a[t, 5]
    # CHECK: %[[ROW:\w+]] = arith.index_cast %[[T]] : i32 to index
    # CHECK: %[[COL:\w+]] = arith.constant 5 : index
    # CHECK: %[[X:\w+]] = memref.load %[[A]][%[[ROW]], %[[COL]]] : {{.*}}(line [[# @LINE - 3]])
    assert a.shape == (64, 32) and a.ndim == 2 and len(a) == 64 and x.dtype is a.dtype is nv.f16
    s[t, 0] = x
    # CHECK: %[[WIDE:\w+]] = arith.extf %[[X]] : f16 to f32
    # CHECK: memref.store %[[WIDE]], %[[S]][
    byte = u[t]
    # CHECK: %[[BYTE:\w+]] = memref.load %[[U]]
    s[0, 0] = byte
    # CHECK: arith.uitofp %[[BYTE]] : i8 to f32
    u[t] = byte >> 1
    # CHECK: %[[SHIFTED:\w+]] = arith.shrui %[[BYTE]],
    # CHECK: memref.store %[[SHIFTED]], %[[U]]
    s[0, 1] = 3
    # CHECK: %[[THREE:\w+]] = arith.constant 3.000000e+00 : f32
    # CHECK: memref.store %[[THREE]], %[[S]]
    a[t, 0] += 1.0
    # CHECK: %[[OLD:\w+]] = memref.load %[[A]]
    # CHECK: %[[NEW:\w+]] = arith.addf %[[OLD]], %{{.*}} : f16
    # CHECK: memref.store %[[NEW]], %[[A]]


@refused(array(nv.f32, 8, 4))
def too_few_indices(a):
    a[0]
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: 1 index for an array of shape (8, 4)
    # CHECK-NEXT: rule: a kernel indexes every axis
    # CHECK-NEXT: fix: write 2 indices


@refused(array(nv.f32, 8, 4))
def out_of_range(a):
    a[8, 0] = 1.0
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: index 8 on an axis of 8 elements
    # CHECK-NEXT: rule: indices are 0 to extent - 1; negative indices don't wrap in a kernel
    # CHECK-NEXT: fix: use shape[axis] - 1 for the last element


@refused(array(nv.f32, 8, 4))
def negative(a):
    a[0, -1]
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: index -1 on an axis of 4 elements


@refused(array(nv.f32, 8))
def index_is_no_integer(a):
    a[nv.block_dim.x * 0.5]
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: a traced f32 where an integer belongs


@refused(array(nv.f32, 8))
def no_number(a):
    a[0] = "1"
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: '1' is not a number


@refused(array(nv.i8, 8))
def does_not_fit(a):
    a[0] = 200
    # CHECK: TraceError: element.py:[[# @LINE - 1]]: 200 does not fit i8
    # CHECK-NEXT: rule: i8 holds -128 .. 127


@refused(array(nv.f32, 8))
def loop(a):
    for _x in a:
        pass
    # CHECK: TraceError: element.py:[[# @LINE - 2]]: a loop over an array
    # CHECK-NEXT: rule: an array's elements are read one by one
    # CHECK-NEXT: fix: for i in nv.range(n): a[i]


@refused(array(nv.f32, 8))
def truth_value(a):
    if a:
        pass
    # CHECK: TraceError: element.py:[[# @LINE - 2]]: `if` takes a condition, and was given a value of type memref<8xf32>
