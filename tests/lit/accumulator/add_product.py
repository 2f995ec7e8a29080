# RUN: %python %s | FileCheck %s

"""acc += A @ B: fence, the wgmmas, one commit; the old accumulator stays what it was."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 16))
def kernel(d):
    A, B = nv.smem((64, 32), nv.f16, swizzle=64), nv.smem((32, 16), nv.f16, swizzle=32)
    acc = nv.accumulator(64, 16)
    acc += A @ B
    # CHECK: nvvm.wgmma.fence.aligned (line [[# @LINE - 1]])
    # CHECK-COUNT-2: nvvm.wgmma.mma_async
    # CHECK: nvvm.wgmma.commit.group.sync.aligned
    first = acc
    acc += A @ B
    # CHECK: nvvm.wgmma.fence.aligned
    # CHECK: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
    # CHECK: nvvm.wgmma.commit.group.sync.aligned
    assert acc is not first
    acc = acc.mma(A, B, commit=False)
    # CHECK: nvvm.wgmma.fence.aligned
    # CHECK-COUNT-2: nvvm.wgmma.mma_async
    nv.wgmma_commit()
    # CHECK-NEXT: nvvm.wgmma.commit.group.sync.aligned (line [[# @LINE - 1]])
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


@refused()
def no_product():
    acc = nv.accumulator(64, 64)
    acc += nv.smem((64, 64), nv.f16, swizzle=128)
    # CHECK: TraceError: add_product.py:[[# @LINE - 1]]: `accumulator += Tile`
    # CHECK-NEXT: rule: an accumulator takes the product of two tiles, and adds numbers, vectors and fragments
    # CHECK-NEXT: fix: acc += A[slot] @ B[slot]; acc += nv.fragment(tile) adds its elements


@refused()
def shapes():
    acc = nv.accumulator(64, 64)
    acc += nv.smem((64, 64), nv.f16, swizzle=128) @ nv.smem((32, 64), nv.f16, swizzle=128)
    # CHECK: TraceError: add_product.py:[[# @LINE - 1]]: 64 x 64 @ 32 x 64 into a 64 x 64 accumulator
    # CHECK-NEXT: rule: shapes match as in matrix multiplication: (M, K) @ (K, N) -> (M, N)
    # CHECK-NEXT: fix: use tile.T for a tile that holds the transpose, tile.rows(...) for a part of it


@refused()
def k_of_part_of_a_step():
    acc = nv.accumulator(64, 64)
    acc += nv.smem((64, 8), nv.f16, swizzle=16) @ nv.smem((8, 64), nv.f16, swizzle=128)
    # CHECK: TraceError: add_product.py:[[# @LINE - 1]]: K of 8 elements of f16
    # CHECK-NEXT: rule: one wgmma consumes 32 bytes of K: 16 f16 or bf16, 8 f32 (as tf32), 32 fp8 or int8
    # CHECK-NEXT: fix: make K a multiple of 16


@refused()
def dense_tile():
    acc = nv.accumulator(64, 64)
    acc += nv.smem((64, 64), nv.f16, swizzle=128) @ nv.smem((64, 64), nv.f16)
    # CHECK: TraceError: add_product.py:[[# @LINE - 1]]: B is a dense tile (swizzle=0)
    # CHECK-NEXT: rule: wgmma reads 8-row core matrices of 16-byte rows, plain or swizzled (PTX ISA, Matrix Descriptor)
    # CHECK-NEXT: fix: allocate and load it with swizzle=128 (or 64, 32, 16)


@refused()
def array_for_a_tile():
    acc = nv.accumulator(64, 64)
    acc += nv.smem((64, 64), nv.f16, swizzle=128) @ nv.smem(64, nv.f16)
    # CHECK: TraceError: add_product.py:[[# @LINE - 1]]: a tile @ Array
    # CHECK-NEXT: rule: B of a wgmma is a tile in shared memory (PTX ISA, wgmma.mma_async); A may be in registers
    # CHECK-NEXT: fix: acc += A[slot] @ B[slot]


@refused()
def two_types():
    acc = nv.accumulator(64, 64)
    acc += nv.smem((64, 64), nv.f16, swizzle=128) @ nv.smem((64, 64), nv.bf16, swizzle=128)
    # CHECK: TraceError: add_product.py:[[# @LINE - 1]]: no wgmma multiplies f16 by bf16 into f32
    # CHECK-NEXT: rule: wgmma takes f16*f16 -> f32/f16; bf16*bf16 -> f32;
    # CHECK-NEXT: fix: convert the operands to one type


@refused()
def type_without_wgmma():
    acc = nv.accumulator(64, 64)
    acc += nv.smem((64, 16), nv.f64, swizzle=128) @ nv.smem((16, 64), nv.f64, swizzle=128)
    # CHECK: TraceError: add_product.py:[[# @LINE - 1]]: no wgmma multiplies f64 by f64 into f32
