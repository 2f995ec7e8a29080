# RUN: %python %s | FileCheck %s

"""ldmatrix: 1, 2 or 4 matrices into as many i32 registers of each lane."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 4), ptx=True)
def kernel(out):
    pointer = nv.smem((32, 8), nv.f16, swizzle=16).pointer()
    # CHECK: %[[POINTER:\w+]] = llvm.inttoptr
    four = nv.ldmatrix(pointer, 4)
    # CHECK: %[[FOUR:\w+]] = nvvm.ldmatrix %[[POINTER]] {{.*}}num = 4{{.*}} -> !llvm.struct<(i32, i32, i32, i32)> (line [[# @LINE - 1]])
    # CHECK: llvm.extractvalue %[[FOUR]][0]
    # CHECK: %[[LAST:\w+]] = llvm.extractvalue %[[FOUR]][3]
    out[3] = four[3]
    # CHECK: memref.store %[[LAST]],
    (one,) = nv.ldmatrix(pointer, 1, transpose=True)
    # CHECK: %[[ONE:\w+]] = nvvm.ldmatrix %[[POINTER]] {{.*}}<col>{{.*}} -> i32
    out[0] = one
    # CHECK: memref.store %[[ONE]],


# CHECK-LABEL: .entry kernel
# CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
# CHECK: ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16


@refused()
def three_matrices():
    nv.ldmatrix(nv.smem((8, 8), nv.f16).pointer(), 3)
    # CHECK: TraceError: ldmatrix.py:[[# @LINE - 1]]: ldmatrix of 3 matrices
    # CHECK-NEXT: rule: ldmatrix moves 1, 2 or 4 matrices (PTX ISA, ldmatrix)
    # CHECK-NEXT: fix: split the registers into groups of 4
