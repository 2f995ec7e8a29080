# RUN: %python %s | FileCheck %s

"""nv.copy: the widest access of both layouts; a part that divides its array costs no comparison."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 128, 128), array(nv.f32, 128, 64), ptx=True, grid=2)
def kernel(x, y):
    row = nv.block_id.x * 64
    tile = nv.smem((64, 64), nv.f16, swizzle=128)
    plan = nv.copy(x[row : row + 64, 64:], tile)
    # CHECK-COUNT-4: vector.load %{{.*}}[%{{.*}}, %{{.*}}] {alignment = 16 : i64} : memref<64x64xf16, strided<[128, 1], offset: ?>>, vector<8xf16> (line [[# @LINE - 1]])
    # CHECK-NOT: arith.cmpi
    # CHECK-COUNT-4: vector.store %{{.*}} {alignment = 16 : i64} : memref<8xf16, #gpu.address_space<workgroup>>, vector<8xf16>
    assert (plan.vector, plan.rounds, plan.why) == (8, 4, ())
    nv.sync_threads()
    nv.copy(tile, y[row : row + 64, :])
    # CHECK-COUNT-8: vector.load %{{.*}} {alignment = 8 : i64} : memref<4xf16, #gpu.address_space<workgroup>>, vector<4xf16> (line [[# @LINE - 1]])
    # CHECK: arith.extf %{{.*}} : vector<4xf16> to vector<4xf32>
    # CHECK: vector.store %{{.*}} {alignment = 16 : i64} {{.*}} vector<4xf32>


# CHECK-LABEL: .entry kernel
# CHECK-COUNT-4: ld.global.v4.b32
# CHECK-COUNT-4: st.shared.v4.b32


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 100, 104), grid=2)
def ragged(x):
    row = nv.block_id.x * 64
    tile = nv.smem((64, 104), nv.f16)
    nv.copy(x[row : row + 64, :], tile)
    # CHECK: arith.cmpi {{.*}} (line [[# @LINE - 1]])
    # CHECK: scf.if {{.*}} -> (vector<8xf16>)
    # CHECK: vector.load
    nv.sync_threads()
    nv.copy(tile, x[row : row + 64, :])
    # CHECK: scf.if
    # CHECK: vector.store {{.*}} (line [[# @LINE - 2]])


@refused(array(nv.f16, 64, 64))
def shapes(x):
    nv.copy(x[:32, :], nv.smem((64, 64), nv.f16))
    # CHECK: TraceError: copy.py:[[# @LINE - 1]]: nv.copy from a part of shape (32, 64) to one of shape (64, 64)
    # CHECK-NEXT: rule: both sides have one shape: element by element


@refused(array(nv.f16, 64, 64))
def converted(x):
    nv.copy(x, nv.smem((64, 64), nv.f32), asynchronous=True)
    # CHECK: TraceError: copy.py:[[# @LINE - 1]]: an asynchronous copy of f16 in global memory to f32 in shared memory
    # CHECK-NEXT: rule: cp.async goes from global to shared memory, and does not convert


@refused(array(nv.f16, 64, 65))
def rows_that_are_not_aligned(x):
    nv.copy(x[:, :64], nv.smem((64, 64), nv.f16), asynchronous=True)
    # CHECK: TraceError: copy.py:[[# @LINE - 1]]: an asynchronous copy whose widest access has 2 bytes (limited by the alignment of the source: 1 element)
    # CHECK-NEXT: rule: cp.async copies 4, 8 or 16 contiguous, aligned bytes


@refused(array(nv.f16, 64, 64))
def group(x):
    nv.copy(x, x, group="quad")
    # CHECK: TraceError: copy.py:[[# @LINE - 1]]: nv.copy with group='quad'


@refused(array(nv.f16, 64, 64))
def a_number(x):
    nv.copy(x[0, 0], x)
    # CHECK: TraceError: copy.py:[[# @LINE - 1]]: nv.copy with a number as its source
