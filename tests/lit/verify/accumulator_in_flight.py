# RUN: %python %s | FileCheck %s

"""An accumulator that is read too early, and a wgmma without a fence."""

from show import array, refused

import nvdsl as nv
from nvdsl.layout import Operand
from nvdsl.mlir.dialects import llvm
from nvdsl.ops import wgmma

D = array(nv.f32, 64, 64)


def tiles():
    return nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=128)


@refused(D)
def no_wait(d):
    a, b = tiles()
    acc = nv.accumulator(64, 64)
    acc += a @ b
    acc.store(d, (0, 0))
    # CHECK: VerifyError: accumulator_in_flight.py:[[# @LINE - 1]]: the accumulator is read while the wgmma at line
    # CHECK-SAME: [[# @LINE - 3]] may be in flight: nothing waits for it
    # CHECK-NEXT: rule: the registers of an accumulator are not to be touched before a wgmma.wait_group
    # CHECK-NEXT: fix: nv.wgmma_wait(0) before the accumulator is read


@refused(D)
def one_left(d):
    a, b = tiles()
    acc = nv.accumulator(64, 64)
    for _ in nv.range(4):
        acc += a @ b
        nv.wgmma_wait(1)
    acc.store(d, (0, 0))
    # CHECK: VerifyError: accumulator_in_flight.py:[[# @LINE - 1]]: the accumulator is read while the wgmma at line
    # CHECK-SAME: [[# @LINE - 4]] may be in flight: the wait at line [[# @LINE - 3]] leaves 1 group in flight


@refused(D)
def not_committed(d):
    a, b = tiles()
    acc = nv.accumulator(64, 64).mma(a, b, commit=False)
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))
    # CHECK: VerifyError: accumulator_in_flight.py:[[# @LINE - 1]]: {{.*}}: no group has been committed since
    # CHECK: fix: nv.wgmma_commit() behind the wgmma, then nv.wgmma_wait(0)


@refused()
def no_fence():
    tile = nv.smem((64, 16), nv.f16, swizzle=32)
    desc = wgmma.descriptor(tile.address, Operand(tile.layout, "k"))
    start = llvm.mlir_undef(wgmma.accumulator_type(64, nv.f32))
    wgmma.mma_async(start, desc, desc, n=64, a_dtype=nv.f16, b_dtype=nv.f16, d_dtype=nv.f32)
    # CHECK: VerifyError: accumulator_in_flight.py:[[# @LINE - 1]]: no wgmma.fence comes before this wgmma
    # CHECK: fix: nv.wgmma_fence() before the wgmmas of a group
