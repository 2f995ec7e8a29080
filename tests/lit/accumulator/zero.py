# RUN: %python %s | FileCheck %s

"""nv.accumulator: a zero that costs nothing in straight-line code, and one block of registers for each 64 rows."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 128, 16))
def kernel(d):
    acc = nv.accumulator(128, 16)
    assert acc.shape == (128, 16) and acc.dtype is nv.f32
    acc += nv.smem((128, 16), nv.f16, swizzle=32) @ nv.smem((16, 16), nv.f16, swizzle=32)
    # CHECK-NOT: arith.constant 0.0
    # CHECK: %[[ANY:\w+]] = llvm.mlir.undef : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
    # CHECK: %[[UPPER:\w+]] = nvvm.wgmma.mma_async %{{.*}}, %{{.*}}, %[[ANY]], {{.*}}D[<f32>, <zero>]
    # The lower 64 rows of A: 64 * 32 bytes further.
    # CHECK: %[[ROWS:\w+]] = arith.constant 128 : i64
    # CHECK: arith.addi %{{.*}}, %[[ROWS]]
    # CHECK: nvvm.wgmma.mma_async %{{.*}}, %{{.*}}, %[[ANY]], {{.*}}D[<f32>, <zero>]
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


# Where registers are needed, zeros are written.
# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 8))
def stored(d):
    nv.accumulator(64, 8).store(d, (0, 0))
    # CHECK: %[[ZERO:\w+]] = arith.constant 0.000000e+00 : f32
    # CHECK: llvm.insertvalue %[[ZERO]],
    # CHECK: vector.store


@refused()
def too_wide():
    nv.accumulator(64, 264)
    # CHECK: TraceError: zero.py:[[# @LINE - 1]]: an accumulator of 64 x 264
    # CHECK-NEXT: rule: one warpgroup accumulates M = 64, 128, ... by N = 8, 16, ..., 256 (PTX ISA, wgmma.mma_async)
    # CHECK-NEXT: fix: give each warpgroup 64 or 128 rows and at most 256 columns


@refused()
def part_of_64_rows():
    nv.accumulator(32, 64)
    # CHECK: TraceError: zero.py:[[# @LINE - 1]]: an accumulator of 32 x 64


@refused()
def no_sums_of_that_type():
    nv.accumulator(64, 64, nv.bf16)
    # CHECK: TraceError: zero.py:[[# @LINE - 1]]: an accumulator of bf16
    # CHECK-NEXT: rule: wgmma accumulates in f32, f16 or i32 (PTX ISA, wgmma.mma_async)
    # CHECK-NEXT: fix: accumulate in nv.f32 and convert in the epilogue


@refused(block=96)
def no_warpgroup():
    nv.accumulator(64, 64)
    # CHECK: TraceError: zero.py:[[# @LINE - 1]]: an accumulator in a block of 96 threads
    # CHECK-NEXT: rule: an accumulator is spread over the 128 threads of a warpgroup (PTX ISA, wgmma)
    # CHECK-NEXT: fix: use a block of 128 threads or more
