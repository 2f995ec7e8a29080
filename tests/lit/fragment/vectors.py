# RUN: %python %s | FileCheck %s

"""Vectors of rows and columns: loaded by the threads that hold them, stored once each."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 100), array(nv.f16, 4, 64))
def kernel(x, y):
    r = nv.row_vector(x, nv.block_id.x, 64, clip=True, other=1.0)
    # CHECK-COUNT-2: memref.load
    # CHECK-NOT: memref.load {{.*}}100xf32
    c = nv.column_vector(y, (2, 8), 16)
    # CHECK-COUNT-4: memref.load {{.*}}4x64xf16
    assert (r.shape, r[:, None].shape, c[None, :].shape) == ((64,), (64, 1), (1, 16))
    (r + 1.0).store(x, 0)
    # CHECK: scf.if
    # CHECK-COUNT-2: memref.store {{.*}}100xf32
    # CHECK-NOT: memref.store
    nv.sched_barrier(c)


@refused(array(nv.f32, 32))
def short(x):
    nv.row_vector(x, 0, 64)
    # CHECK: TraceError: vectors.py:[[# @LINE - 1]]: a vector of 64 at (0) of Array(shape=(32,), dtype=f32)
    # CHECK-NEXT: rule: there is an index for each axis of the array, and the last axes have room for all of its elements
    # CHECK-NEXT: fix: choose a tile that divides the array, or pass clip=True, which leaves out what lies beyond its edges


@refused(array(nv.f32, 64))
def other_axis(x):
    nv.column_vector(x, 0, 64)[:, None]
    # CHECK: TraceError: vectors.py:[[# @LINE - 1]]: [:, None] of a vector of shape (64,)
    # CHECK-NEXT: rule: it has one value for each column, and is repeated along the other axis
    # CHECK-NEXT: fix: write v[None, :]
