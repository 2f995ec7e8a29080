# RUN: %python %s | FileCheck %s
# ruff: noqa: F821

"""array.windows: overlapping windows of rows as one more axis, for tensor maps; nothing is copied."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @windows
# CHECK-SAME: %[[X:\w+]]: memref<512x64xf16>
@show(array(nv.f16, 512, 64), array(nv.f16, 100, 72))
@nv.jit
def windows(x, y: nv.Array["k", "n % 8"]):
    assert repr(x.windows(32)) == "Array(shape=(512, 32, 64), dtype=f16)"
    # CHECK: memref.reinterpret_cast %[[X]] to offset: [0], sizes: [512, 32, 64], strides: [64, 64, 1] : memref<512x64xf16> to memref<512x32x64xf16, strided<[64, 64, 1]>> (line [[# @LINE - 1]])
    part = x[8:, 16:48].windows(16)
    # CHECK: memref.reinterpret_cast %{{.*}} to offset: [528], sizes: [504, 16, 32], strides: [64, 64, 1]
    nv.TMA(part, tile=(1, 16, 32))
    # CHECK: nvgpu.tma.create.descriptor
    y.windows(64)
    # CHECK: %[[ROWS:\w+]] = arith.index_cast
    # CHECK: memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%{{\w+}}, 64, %{{\w+}}], strides: [%[[STEP:\w+]], %[[STEP]], 1]

    @nv.kernel(grid=1, block=32)
    def kernel():
        y[0, 0] = x[0, 0]

    kernel()


@refused(array(nv.f16, 512))
def of_one_axis(x):
    x.windows(4)
    # CHECK: TraceError: windows.py:[[# @LINE - 1]]: windows(4) of Array(shape=(512,), dtype=f16)
    # CHECK-NEXT: rule: windows are 1 or more rows, a Python int, of an array in global memory with 2 axes or more


@refused(array(nv.f16, 512, 64))
def none(x):
    x.windows(0)
    # CHECK: TraceError: windows.py:[[# @LINE - 1]]: windows(0) of
