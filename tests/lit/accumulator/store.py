# RUN: %python %s | FileCheck %s

"""acc.store: two neighbours in one access where the array's rows allow it, converted to the array's dtype."""

from show import array, refused, show

import nvdsl as nv


def stored(out, start):
    acc = nv.accumulator(64, 8)
    acc += nv.smem((64, 16), nv.f16, swizzle=32) @ nv.smem((8, 16), nv.f16, swizzle=32).T
    nv.wgmma_wait(0)
    acc.store(out, start)


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 128, 64), ptx=True)
def as_f16(out):
    stored(out, (64, nv.block_id.x * 8))
    # CHECK: %[[PAIR:\w+]] = nvvm.convert.f32x2.to.f16x2 {{.*}}rnd = #nvvm.fp_rnd_mode<rn>
    # CHECK: vector.store %[[PAIR]], %{{.*}} {alignment = 4 : i64} : memref<128x64xf16>, vector<2xf16>
    # CHECK: vector.store
    # CHECK-NOT: vector.store


# CHECK-LABEL: .entry kernel
# CHECK: cvt.rn.f16x2.f32
# CHECK: st.global.b32


# CHECK-LABEL: gpu.launch
@show(array(nv.f64, 64, 8))
def as_f64(out):
    stored(out, (0, 0))
    # CHECK: arith.extf %{{.*}} : f32 to f64
    # CHECK: vector.store %{{.*}} {alignment = 16 : i64} : memref<64x8xf64>, vector<2xf64>


# Rows of an odd number of elements, or an odd column: one element at a time.
# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 9))
def odd_rows(out):
    stored(out, (0, 0))
    # CHECK-COUNT-4: memref.store
    # CHECK-NOT: vector.store
    # CHECK: gpu.terminator


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 16))
def odd_column(out):
    stored(out, (0, 3))
    # CHECK-COUNT-4: memref.store
    # CHECK-NOT: vector.store
    # CHECK: gpu.terminator


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 16, strides=(1, 64)))
def columns_contiguous(out):
    stored(out, (0, 0))
    # CHECK-COUNT-4: memref.store {{.*}} : memref<64x16xf32, strided<[1, 64]>>
    # CHECK-NOT: vector.store
    # CHECK: gpu.terminator


@refused(array(nv.f32, 64, 8))
def outside(out):
    nv.accumulator(64, 8).store(out, (64, 0))
    # CHECK: TraceError: store.py:[[# @LINE - 1]]: a fragment of 64 x 8 at (64, 0) of Array(shape=(64, 8), dtype=f32)
    # CHECK-NEXT: rule: there is an index for each axis of the array, and the last axes have room for all of its elements
    # CHECK-NEXT: fix: choose a tile that divides the array, or pass clip=True, which leaves out what lies beyond its edges


@refused(array(nv.f32, 64, 8))
def larger_than_the_array(out):
    nv.accumulator(64, 16).store(out, (nv.block_id.x, 0))
    # CHECK: TraceError: store.py:[[# @LINE - 1]]: a fragment of 64 x 16 at (..., 0) of Array(shape=(64, 8), dtype=f32)


@refused(array(nv.f32, 4096))
def one_axis(out):
    nv.accumulator(64, 8).store(out, (0, 0))
    # CHECK: TraceError: store.py:[[# @LINE - 1]]: a fragment of 64 x 8 at (0, 0) of Array(shape=(4096,), dtype=f32)


@refused(array(nv.f32, 64, 8))
def one_coordinate(out):
    nv.accumulator(64, 8).store(out, (0,))
    # CHECK: TraceError: store.py:[[# @LINE - 1]]: a fragment of 64 x 8 at (0) of
