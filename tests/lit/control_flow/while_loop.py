# RUN: %python %s | FileCheck %s

"""`while` on a traced condition is scf.while: the test in one region, the body in the other."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64))
def kernel(x):
    i, limit = nv.i32(0), x[0]
    while i < limit and x[i] != 7:
        i += 2
    # CHECK: %[[START:\w+]] = arith.constant 0 : i32
    # CHECK: %[[LIMIT:\w+]] = memref.load
    # CHECK: %[[END:\w+]] = scf.while (%[[I:\w+]] = %[[START]]) : (i32) -> i32 {
    # CHECK: %[[MORE:\w+]] = arith.cmpi slt, %[[I]], %[[LIMIT]]
    # CHECK: %[[BOTH:\w+]] = scf.if %[[MORE]] -> (i1)
    # CHECK: scf.condition(%[[BOTH]]) %[[I]] : i32
    # CHECK: } do {
    # CHECK: ^bb0(%[[J:\w+]]: i32
    # CHECK: %[[NEXT:\w+]] = arith.addi %[[J]], %{{.*}}(line [[# @LINE - 9]])
    # CHECK: scf.yield %[[NEXT]] : i32
    x[1] = i
    # CHECK: memref.store %[[END]],


# A test that is Python's makes the loop Python's.
# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64))
def unrolled(x):
    i = 0
    while i < 3:
        x[i] = i
        i += 1
    # CHECK-NOT: scf.while
    # CHECK-COUNT-3: memref.store
    # CHECK: gpu.terminator


@refused(array(nv.i32, 64))
def no_condition(x):
    i = x[0]
    while i:
        i -= 1
    # CHECK: TraceError: while_loop.py:[[# @LINE - 2]]: `while` takes a condition, and was given a value of type i32
    # CHECK-NEXT: rule: a traced condition is a bool (i1)
    # CHECK-NEXT: fix: compare it: `x != 0`


@refused(array(nv.i32, 64))
def traced_after_a_pass(x):
    i = 0
    while i < 4:
        i += x[0]
    # CHECK: TraceError: while_loop.py:[[# @LINE - 2]]: the test of this `while` was a plain Python value at first, and is traced after a pass
    # CHECK-NEXT: rule: a `while` runs either in Python or in the kernel
    # CHECK-NEXT: fix: for a loop in the kernel, make what the test reads traced before the loop: `i = nv.i32(0)`
