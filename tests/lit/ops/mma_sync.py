# RUN: %python %s | FileCheck %s

"""mma.sync: nvvm's op where the dialect has the types and the shape, else inline PTX."""

from show import array, refused, show

import nvdsl as nv

WORDS = array(nv.i32, 4)


# CHECK-LABEL: gpu.launch
@show(WORDS, array(nv.f32, 4), ptx=True)
def sixteen_bits(x, d):
    words = [x[i] for i in range(4)]
    sums = nv.mma_sync(words, words[:2], [d[i] for i in range(4)], k=16, a_dtype=nv.bf16)
    # CHECK: %[[D:\w+]] = nvvm.mma.sync A[%{{.*}}] B[%{{.*}}] C[%{{.*}}] {{.*}}multiplicandAPtxType = #nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>{{.*}}(line [[# @LINE - 1]])
    # CHECK: %[[LAST:\w+]] = llvm.extractvalue %[[D]][3]
    # CHECK: memref.store %[[LAST]],
    for i in range(4):
        d[i] = sums[i]
    # CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32


# CHECK-LABEL: gpu.launch
@show(WORDS, ptx=True)
def sums_of_f16(x):
    words = [x[i] for i in range(4)]
    sums = nv.mma_sync(words[:2], words[:1], words[:2], k=8, a_dtype=nv.f16, d_dtype=nv.f16)
    # CHECK: %[[D:\w+]] = nvvm.mma.sync {{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 8>{{.*}}vector<2xf16>
    # CHECK: llvm.bitcast %{{.*}} : vector<2xf16> to i32
    x[0], x[1] = sums
    # CHECK: mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16


# CHECK-LABEL: gpu.launch
@show(WORDS, ptx=True)
def signs_by_operand(x):
    words = [x[i] for i in range(4)]
    sums = nv.mma_sync(words, words[:2], words, k=32, a_dtype=nv.u8, b_dtype=nv.i8, d_dtype=nv.i32)
    # CHECK: nvvm.mma.sync {{.*}}intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>{{.*}}<u8>{{.*}}<s8>
    x[0] = sums[0]
    # CHECK: mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32


# CHECK-LABEL: gpu.launch
@show(WORDS, array(nv.f32, 4), ptx=True)
def float8(x, d):
    words = [x[i] for i in range(4)]
    sums = nv.mma_sync(words, words[:2], [d[i] for i in range(4)], k=32, a_dtype=nv.e4m3, b_dtype=nv.e5m2)
    # CHECK: llvm.inline_asm {{.*}}nvdsl.ptx = "mma"{{.*}}mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32
    d[0] = sums[0]
    # CHECK: mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32


@refused(WORDS)
def no_such_shape(x):
    words = [x[i] for i in range(4)]
    nv.mma_sync(words, words[:2], words, k=64, a_dtype=nv.i8, d_dtype=nv.i32)
    # CHECK: TraceError: mma_sync.py:[[# @LINE - 1]]: no mma.sync of i8 has the shape m16n8k64
    # CHECK-NEXT: rule: i8 has m8n8k16, m16n8k16, m16n8k32 (PTX ISA 8.6, mma)
    # CHECK-NEXT: fix: split the product into such pieces


@refused(WORDS)
def too_few_registers(x):
    words = [x[i] for i in range(4)]
    nv.mma_sync(words, words[:1], [nv.f32(0.0)] * 4, k=16, a_dtype=nv.f16)
    # CHECK: TraceError: mma_sync.py:[[# @LINE - 1]]: 1 registers for B of an m16n8k16 mma.sync of f16
    # CHECK-NEXT: rule: a lane holds 2 registers of it (PTX ISA, Matrix Fragments for mma)
