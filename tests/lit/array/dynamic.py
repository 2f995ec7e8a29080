# RUN: %python %s | FileCheck %s
# ruff: noqa: F821

"""Named extents: arguments of the host function, of which the array is put together; views, tensor maps, scratch."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: func.func @annotated
# CHECK-SAME: %[[X:\w+]]: memref<f16> {nvdsl.extent = "(m, k % 8)"}
# CHECK-SAME: %[[Y:\w+]]: memref<f16> {nvdsl.extent = "(m, 64)"}
# CHECK-SAME: %[[M:\w+]]: i32 {nvdsl.extent = "m"}
# CHECK-SAME: %[[K:\w+]]: i32 {nvdsl.extent = "k", nvdsl.multiple = 8 : i64}
# CHECK-SAME: %[[STEP:\w+]]: index {nvdsl.extent = "stride 0 of argument 0", nvdsl.multiple = 8 : i64}
# CHECK: %[[ROWS:\w+]] = arith.index_cast %[[M]] : i32 to index
# CHECK: %[[COLS:\w+]] = arith.index_cast %[[K]] : i32 to index
# CHECK: memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[ROWS]], %[[COLS]]], strides: [%[[STEP]], 1] : memref<f16> to memref<?x?xf16, strided<[?, 1]>>
# CHECK: memref.reinterpret_cast %[[Y]] to offset: [0], sizes: [%{{\w+}}, 64], strides: [64, 1] : memref<f16> to memref<?x64xf16, strided<[64, 1]>>
@show(array(nv.f16, 32, 72), array(nv.f16, 32, 64))
@nv.jit
def annotated(x: nv.Array["m", "k % 8"], y: nv.Array["m", 64]):
    assert repr(x) == "Array(shape=(m, k), dtype=f16)"
    part = x[8:, 16:24]
    # CHECK: %[[LESS:\w+]] = arith.subi %[[M]], %{{.*}} : i32 (line [[# @LINE - 1]])
    # CHECK: memref.subview %{{\w+}}[8, 16] [%{{\w+}}, 8] [1, 1] : memref<?x?xf16, strided<[?, 1]>> to memref<?x8xf16, strided<[?, 1], offset: ?>>
    nv.TMA(part, tile=(8, 8))
    # CHECK: memref.cast %{{.*}} to memref<*xf16>
    # CHECK: nvgpu.tma.create.descriptor
    nv.require(x.shape[0] < 100, "too many rows", rule="a hundred at most")
    # CHECK: cf.assert %{{\w+}}, "too many rows" {nvdsl.fix = "", nvdsl.rule = "a hundred at most"} (line [[# @LINE - 1]])
    scratch = nv.empty((x.shape[0], 4), nv.f32)
    # CHECK: %[[MEMORY:\w+]] = gpu.alloc (%{{\w+}}) : memref<?xf32>
    # CHECK: %[[FIRST:\w+]] = memref.reinterpret_cast %[[MEMORY]] to offset: [0], sizes: [], strides: [] : memref<?xf32> to memref<f32>
    # CHECK: memref.reinterpret_cast %[[FIRST]] {{.*}} memref<?x4xf32, strided<[4, 1]>>

    # CHECK: gpu.launch blocks
    @nv.kernel(grid=nv.cdiv(x.shape[0], 8), block=32)
    def kernel():
        v = x.vector((nv.block_id.x, nv.thread_id.x * 8), 8)
        # CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<?x?xf16, strided<[?, 1]>>, vector<8xf16>
        scratch[nv.block_id.x, 0] = v[0]
        # CHECK: memref.store %{{.*}} : memref<?x4xf32, strided<[4, 1]>>

    kernel()


# The kernel's parameters are pointers and numbers; it puts the array together itself. Addresses have 64 bits.
# CHECK-LABEL: func.func @copy
# CHECK: .visible .entry kernel(
# CHECK-DAG: .param .u32
# CHECK-DAG: .param .u64 .ptr
# CHECK: mul.lo.s64
@show(array(nv.f32, "m", "n"), ptx=True)
@nv.jit
def copy(x):
    @nv.kernel(grid=x.shape[0], block=32)
    def kernel():
        x[nv.block_id.x, nv.thread_id.x] = 1.0

    kernel()
