# RUN: %python %s | FileCheck %s

"""Registers of wgmma: of A, read in flight; of an accumulator that nothing wrote; of one that two shapes share."""

from show import refused

import nvdsl as nv
from nvdsl.mlir.dialects import llvm


def tiles():
    return nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=128)


@refused()
def fragment_in_flight():
    A, B = tiles()
    acc = nv.accumulator(64, 64, nv.f32)
    acc += A @ B
    nv.wgmma_wait(0)
    fragment = acc.fragment(nv.f16)
    out = nv.smem((128,), nv.i32)
    acc = nv.accumulator(64, 64, nv.f32)
    acc += fragment @ B
    out[nv.thread_id.x] = fragment.registers[0][0][0]
    # CHECK: VerifyError: registers_of_wgmma.py:[[# @LINE - 1]]: a register of A is read while the wgmma at line
    # CHECK-SAME: [[# @LINE - 3]] may be in flight
    # CHECK-NEXT: rule: registers of A are not to be touched before a wgmma.wait_group that covers the wgmma's group
    # CHECK-NEXT: fix: nv.wgmma_wait(0) before the fragment is used again


@refused()
def undefined_accumulator():
    A, B = tiles()
    struct = llvm.mlir_undef(nv.ops.wgmma.accumulator_type(64, nv.f32))
    acc = nv.Accumulator(64, 64, nv.f32, [struct])
    for _ in nv.range(4):
        acc += A @ B
        # CHECK: VerifyError: registers_of_wgmma.py:[[# @LINE - 1]]: this wgmma adds to registers that nothing has written
        # CHECK-NEXT: rule: with scale-d 1 a wgmma adds to the registers of D
        # CHECK-NEXT: fix: start the sum with scale_d=False, or with zeros, as nv.accumulator does
    nv.wgmma_wait(0)


@refused()
def two_shapes():
    A, B = tiles()
    a = nv.ops.wgmma.descriptor(A.address, A.operand(0))
    b = nv.ops.wgmma.descriptor(B.address, B.T.operand(1))
    (acc,) = nv.accumulator(64, 64, nv.f32).blocks
    nv.wgmma_fence()
    acc = nv.ops.wgmma.mma_async(acc, a, b, n=64, a_dtype=nv.f16, b_dtype=nv.f16, d_dtype=nv.f32)
    acc = nv.ops.wgmma.mma_async(acc, a, b, n=64, a_dtype=nv.e4m3, b_dtype=nv.e4m3, d_dtype=nv.f32)
    # CHECK: VerifyError: registers_of_wgmma.py:[[# @LINE - 1]]: a wgmma of shape m64n64k32 adds to the accumulator of the
    # CHECK-SAME: one of shape m64n64k16 at line [[# @LINE - 3]], with no wgmma.fence between the two
    # CHECK-NEXT: rule: only wgmmas of one shape are ordered in their accumulator by themselves
    # CHECK-NEXT: fix: nv.wgmma_fence() between the two
    nv.wgmma_commit()
    nv.wgmma_wait(0)
