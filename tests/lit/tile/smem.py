# RUN: %python %s | FileCheck %s

"""nv.smem: allocations follow each other in one block, each aligned as its swizzle needs; the launch asks for the sum."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK: %[[BYTES:\w+]] = arith.constant 35840 : i32
# CHECK: gpu.launch {{.*}} dynamic_shared_memory_size %[[BYTES]]
@show()
def kernel():
    nv.smem(3, nv.f32)[0] = 1.0
    # CHECK: %[[AT:\w+]] = arith.constant 0 : index
    # CHECK: memref.view %{{.*}}[%[[AT]]][] : {{.*}} to memref<3xf32, #gpu.address_space<workgroup>> (line [[# @LINE - 2]])
    stages = nv.smem((2, 64, 128), nv.f16, swizzle=128)
    assert stages.shape == (2, 64, 128) and len(stages) == 2 and stages.bytes == 16384
    # From 12 bytes on: the next multiple of 1024 for the 128-byte swizzle.
    stages[0][0, 0] = 1.0
    # CHECK: %[[FIRST:\w+]] = arith.constant 1024 : index
    # CHECK: memref.view %{{.*}}[%[[FIRST]]][]
    stages[1][0, 0] = 1.0
    # CHECK: %[[SECOND:\w+]] = arith.constant 17408 : index
    # CHECK: memref.view %{{.*}}[%[[SECOND]]][]
    dense = nv.smem((16, 64), nv.f16)
    assert dense.shape == (16, 64) and dense.bytes == 2048 and dense.dtype is nv.f16
    dense[0, 0] = 1.0
    # CHECK: %[[DENSE:\w+]] = arith.constant 33792 : index
    # CHECK: memref.view %{{.*}}[%[[DENSE]]][]


@refused()
def row_narrower_than_swizzle():
    nv.smem((64, 32), nv.f16, swizzle=128)
    # CHECK: TraceError: smem.py:[[# @LINE - 1]]: a row of 32 elements is 64 bytes, narrower than the 128-byte swizzle
    # CHECK-NEXT: rule: a tile's rows fill whole panels of the swizzle's width (PTX ISA, Tensor swizzling modes)
    # CHECK-NEXT: fix: use a multiple of 64 columns, or a narrower swizzle


@refused()
def part_of_a_panel():
    nv.smem((64, 96), nv.f16, swizzle=128)
    # CHECK: TraceError: smem.py:[[# @LINE - 1]]: a row of 96 elements is 192 bytes, not a multiple of the 128-byte swizzle


@refused()
def no_such_swizzle():
    nv.smem((64, 64), nv.f16, swizzle=48)
    # CHECK: TraceError: smem.py:[[# @LINE - 1]]: nv.smem((64, 64), f16, swizzle=48)
    # CHECK-NEXT: rule: the swizzle of a 2-D shape is one of (0, 16, 32, 64, 128) bytes
    # CHECK-NEXT: fix: nv.smem((rows, cols), nv.f16, swizzle=128), or a.dtype for the type of array a


@refused()
def swizzle_of_an_array():
    nv.smem((64,), nv.f16, swizzle=128)
    # CHECK: TraceError: smem.py:[[# @LINE - 1]]: nv.smem((64,), f16, swizzle=128)


@refused()
def no_dtype():
    nv.smem((64, 64), "f16")
    # CHECK: TraceError: smem.py:[[# @LINE - 1]]: 'f16' as the type of elements


@refused()
def traced_shape():
    nv.smem((nv.block_dim.x, 64), nv.f16)
    # CHECK: TraceError: smem.py:[[# @LINE - 1]]: nv.smem of shape (
    # CHECK-NEXT: rule: a shape is 1 to 3 positive Python ints: (n,), (rows, cols) or (stages, rows, cols)
    # CHECK-NEXT: fix: take sizes from array shapes or keyword arguments of the host function


@refused()
def four_axes():
    nv.smem((2, 2, 8, 8), nv.f16)
    # CHECK: TraceError: smem.py:[[# @LINE - 1]]: nv.smem of shape (2, 2, 8, 8)


@refused()
@nv.jit
def on_the_host():
    nv.smem((64, 64), nv.f16)
    # CHECK: TraceError: smem.py:[[# @LINE - 1]]: nv.smem was used outside of a kernel
