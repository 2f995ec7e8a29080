# RUN: %python %s | FileCheck %s

"""a[i0:i1, j, ::2] and a.view(start, shape): a subview without a copy; the start may be traced, the shape not."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[A:\w+]]: memref<64x32xf16>
@show(array(nv.f16, 64, 32))
def kernel(a):
    part = a[8:16, :]
    # CHECK: %[[PART:\w+]] = memref.subview %[[A]][8, 0] [8, 32] [1, 1] : memref<64x32xf16> to memref<8x32xf16, strided<[32, 1], offset: 256>> (line [[# @LINE - 1]])
    assert part.shape == (8, 32) and part.strides == (32, 1)
    part[0, 0] = 1.0
    # CHECK: memref.store %{{.*}}, %[[PART]]
    row = a[5, :16]
    # CHECK: %[[ROW:\w+]] = memref.subview %[[A]][5, 0] [1, 16] [1, 1] : {{.*}} to memref<16xf16, strided<[1], offset: 160>>
    row[0] = 1.0
    # CHECK: memref.store %{{.*}}, %[[ROW]]
    every = a[1::2, 4:32:7]
    # CHECK: memref.subview %[[A]][1, 4] [32, 4] [2, 7] : {{.*}} to memref<32x4xf16, strided<[64, 7], offset: 36>>
    assert every.shape == (32, 4)
    first = nv.block_id.x * 8
    eight = a[first : first + 8, nv.thread_id.x % 4 : nv.thread_id.x % 4 + 2]
    # CHECK: memref.subview %[[A]][%{{.*}}, %{{.*}}] [8, 2] [1, 1] : {{.*}} to memref<8x2xf16, strided<[32, 1], offset: ?>>
    assert eight.shape == (8, 2)
    moving = a.view((nv.thread_id.x, 8), (1, 8))
    # CHECK: %[[T:\w+]] = arith.index_cast %{{.*}} : i32 to index
    # CHECK: memref.subview %[[A]][%[[T]], 8] [1, 8] [1, 1]
    moving[0, 0] = 1.0


# CHECK-LABEL: func.func @host
@show(array(nv.u16, 64))
def keeps_its_dtype(a):
    assert a[8:16].dtype is nv.u16
    a[8:16][0] = a[0:8][1] >> 2
    # CHECK: arith.shrui


@refused(array(nv.f32, 64))
def traced_bound(a):
    a[nv.thread_id.x : 64]
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a slice [...:64] of axis 0, an extent of which only the kernel knows
    # CHECK-NEXT: rule: a view's extents are known while tracing; its start may be traced: x[row : row + 32]
    # CHECK-NEXT: fix: write a.view((row, col), (rows, cols)); its start may be traced


@refused(array(nv.f32, 64))
def step(a):
    a[::-2]
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a slice [::-2]
    # CHECK-NEXT: rule: a view steps forward by a number that is known while tracing: 1 or more


@refused(array(nv.f32, 64))
def assigned(a):
    a[0:8] = 0.0
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: assignment to a slice of an array
    # CHECK-NEXT: rule: a kernel's store writes one element
    # CHECK-NEXT: fix: nv.copy(source, a[i:j]), or .store_vector for a few contiguous ones


@refused(array(nv.f32, 64))
def outside(a):
    a[32:100]
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a slice [32:100] of axis 0, which has 64 elements
    # CHECK-NEXT: rule: a view is not empty and lies within its array; negative indices don't wrap in a kernel
    # CHECK-NEXT: fix: check the slice's start and stop


@refused(array(nv.f32, 64))
def negative(a):
    a[-8:]
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a slice [-8:] of axis 0, which has 64 elements


@refused(array(nv.f32, 64))
def axes(a):
    a.view((0, nv.thread_id.x), (1, 1))
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a view of shape (1, 1) at (0, ...) of an array of shape (64,)
