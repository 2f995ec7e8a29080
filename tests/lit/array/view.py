# RUN: %python %s | FileCheck %s

"""a[i0:i1, j0:j1] and a.view(start, shape): a subview without a copy; the start may be traced, the shape not."""

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
    # CHECK: memref.subview %[[A]][5, 0] [1, 16] [1, 1]
    row[0, 0] = 1.0
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
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a slice with a traced bound or a step
    # CHECK-NEXT: rule: a view's extents are known when the kernel is traced
    # CHECK-NEXT: fix: write a.view((row, col), (rows, cols)); its start may be traced


@refused(array(nv.f32, 64))
def step(a):
    a[0:64:2]
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a slice with a traced bound or a step


@refused(array(nv.f32, 64))
def assigned(a):
    a[0:8] = 0.0
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: assignment to a slice of an array
    # CHECK-NEXT: rule: a kernel's store writes one element
    # CHECK-NEXT: fix: loop over the elements, or use .store_vector for a few contiguous ones


@refused(array(nv.f32, 64))
def outside(a):
    a[32:100]
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a view of shape (68,) at (32) of an array of shape (64,)
    # CHECK-NEXT: rule: a view has one start and one extent for each axis, is not empty and lies within its array
    # CHECK-NEXT: fix: check the view's start and shape


@refused(array(nv.f32, 64))
def negative(a):
    a[-8:]
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a view of shape (72,) at (-8) of an array of shape (64,)


@refused(array(nv.f32, 64))
def axes(a):
    a.view((0, nv.thread_id.x), (1, 1))
    # CHECK: TraceError: view.py:[[# @LINE - 1]]: a view of shape (1, 1) at (0, ...) of an array of shape (64,)
