# RUN: %python %s | FileCheck %s

"""stmatrix: 1, 2 or 4 matrices from i32 registers that hold two 16-bit elements each."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    tile = nv.smem((32, 8), nv.f16, swizzle=16)
    pointer = tile.pointer(nv.lane_id() * 16)
    # CHECK: %[[POINTER:\w+]] = llvm.getelementptr
    a, b = nv.i32(1), nv.i32(2)
    # CHECK: %[[A:\w+]] = arith.constant 1 : i32
    # CHECK: %[[B:\w+]] = arith.constant 2 : i32
    nv.stmatrix(pointer, [a, b, a, b])
    # CHECK: nvvm.stmatrix %[[POINTER]], %[[A]], %[[B]], %[[A]], %[[B]] {{.*}}<row>{{.*}}(line [[# @LINE - 1]])
    nv.stmatrix(pointer, [a, b], transpose=True)
    # CHECK: nvvm.stmatrix %[[POINTER]], %[[A]], %[[B]] {{.*}}<col>
    nv.stmatrix(pointer, [a])
    # CHECK: nvvm.stmatrix %[[POINTER]], %[[A]] {


# CHECK-LABEL: .entry kernel
# CHECK: stmatrix.sync.aligned.m8n8.x4.shared.b16 [{{.*}}], {%r
# CHECK: stmatrix.sync.aligned.m8n8.x2.trans.shared.b16
# CHECK: stmatrix.sync.aligned.m8n8.x1.shared.b16


@refused()
def three_matrices():
    nv.stmatrix(nv.smem((8, 8), nv.f16).pointer(), [nv.i32(0)] * 3)
    # CHECK: TraceError: stmatrix.py:[[# @LINE - 1]]: stmatrix of 3 matrices
    # CHECK-NEXT: rule: stmatrix moves 1, 2 or 4 matrices (PTX ISA, stmatrix)
    # CHECK-NEXT: fix: split the registers into groups of 4


@refused()
def registers_of_f32():
    nv.stmatrix(nv.smem((8, 8), nv.f16).pointer(), [nv.f32(0.0)])
    # CHECK: TraceError: stmatrix.py:[[# @LINE - 1]]: stmatrix of a register of type f32
    # CHECK-NEXT: rule: a register is an i32 that holds two 16-bit elements (PTX ISA, stmatrix)
    # CHECK-NEXT: fix: pack two
