# RUN: %python %s | FileCheck %s

"""Operands that an instruction does not take, where they are sure: a division by 0, a shift too far, a step of 0."""

from show import refused

import nvdsl as nv


@refused()
def division():
    s = nv.smem((128,), nv.i32)
    t = nv.thread_id.x
    s[t] = 100 // (t - 3)
    # CHECK: VerifyError: scalars.py:[[# @LINE - 1]]: a division by 0
    # CHECK-NEXT: rule: an integer division or remainder by 0 is undefined (LLVM), its value unspecified (PTX ISA, div)
    # CHECK-NEXT: fix: guard it with an `if`


@refused()
def shift():
    s = nv.smem((128,), nv.i32)
    s[nv.thread_id.x] = nv.i32(1) << nv.thread_id.x
    # CHECK: VerifyError: scalars.py:[[# @LINE - 1]]: a shift of 32 bits by 32


@refused()
def step():
    s = nv.smem((128,), nv.i32)
    for k in nv.range(0, 8, nv.thread_id.x // 128):
        # CHECK: VerifyError: scalars.py:[[# @LINE - 1]]: a loop with a step of 0
        s[k] = 1
