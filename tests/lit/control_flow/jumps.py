# RUN: %python %s | FileCheck %s

"""return, break and continue out of traced control flow: what can't be built is an error that says what to write."""

from show import array, refused, show

import nvdsl as nv


# `continue` at the end of a way through the body is a branch.
# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64))
def guarded(x):
    for i in nv.range(8):
        if x[i] < 0.0:
            continue
        x[i] = 0.0
    # CHECK: scf.for
    # CHECK: scf.if
    # CHECK-NEXT: } else {
    # CHECK: memref.store


@refused(array(nv.f32, 64))
def return_in_a_loop(x):
    for i in nv.range(8):
        if x[i] > 0.0:
            return
    # CHECK: TraceError: jumps.py:[[# @LINE - 1]]: `return` inside a `for` over nv.range
    # CHECK-NEXT: rule: whether the kernel takes a branch, or another pass, is not known while it is traced
    # CHECK-NEXT: fix: assign a variable there, and return that after the statement


@refused(array(nv.f32, 64))
def break_under_if(x):
    for i in nv.range(8):
        if x[i] > 0.0:
            break
    # CHECK: TraceError: jumps.py:[[# @LINE - 1]]: `break` inside an `if` on a traced condition
    # CHECK-NEXT: rule: whether the kernel takes a branch, or another pass, is not known while it is traced
    # CHECK-NEXT: fix: carry a bool, `while i < n and not done:`, or guard the rest of the body with an `if`


@refused(array(nv.f32, 64))
def break_out_of_while(x):
    while x[0] > 0.0:
        x[0] -= 1.0
        if x[1] > 0.0:
            break
    # CHECK: TraceError: jumps.py:[[# @LINE - 1]]: `break` inside an `if` on a traced condition


@refused(array(nv.f32, 64))
def continue_in_the_middle(x):
    for i in nv.range(8):
        if x[i] > 0.0:
            if x[i] > 1.0:
                continue
            x[i] = 2.0
        x[i] = 1.0
    # CHECK: TraceError: jumps.py:[[# @LINE - 3]]: `continue` inside an `if` on a traced condition
    # CHECK-NEXT: rule: whether the kernel takes a branch, or another pass, is not known while it is traced
    # CHECK-NEXT: fix: guard the rest of the body with an `if`
