# RUN: %python %s | FileCheck %s

"""`if` on a traced condition is scf.if; what the branches assign is merged. On a Python bool it is Python's."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64))
def kernel(x):
    t = nv.thread_id.x
    y, same = 1.0, 5
    if t < 32:
        y = x[t]
    elif t == 40:
        y = 2.0
    # CHECK: %[[LOW:\w+]] = arith.cmpi slt
    # CHECK: %[[Y:\w+]] = scf.if %[[LOW]] -> (f32) {
    # CHECK: %[[X:\w+]] = memref.load {{.*}}(line [[# @LINE - 5]])
    # CHECK: scf.yield %[[X]] : f32
    # CHECK: } else {
    # CHECK: %[[EQUAL:\w+]] = arith.cmpi eq
    # CHECK: %[[TWO:\w+]] = arith.constant 2.000000e+00 : f32
    # CHECK: %[[OTHER:\w+]] = scf.if %[[EQUAL]] -> (f32) {
    # CHECK: scf.yield %[[TWO]] : f32
    # CHECK: scf.yield %[[OTHER]] : f32
    x[t] = y
    # CHECK: memref.store %[[Y]],
    assert same == 5


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64))
def python_condition(x):
    if x.shape[0] > 100:
        x[0] = 1.0
    else:
        x[1] = 2.0
    # CHECK-NOT: scf.if
    # CHECK: %[[TWO:\w+]] = arith.constant 2.000000e+00
    # CHECK: memref.store %[[TWO]],
    # CHECK-NOT: memref.store
    # CHECK: gpu.terminator


# An early return at the top level leaves the rest to the other branch.
# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64))
def early_return(x):
    if nv.thread_id.x >= 64:
        return
    x[nv.thread_id.x] = 0.0
    # CHECK: scf.if %{{\w+}} {
    # CHECK-NEXT: } else {
    # CHECK: memref.store


@refused(array(nv.f32, 64))
def no_condition(x):
    if nv.thread_id.x:
        x[0] = 1.0
    # CHECK: TraceError: if_else.py:[[# @LINE - 2]]: `if` takes a condition, and was given a value of type i32
    # CHECK-NEXT: rule: a traced condition is a bool (i1)
    # CHECK-NEXT: fix: compare it: `x != 0`


@refused(array(nv.f32, 64))
def assigned_in_one_branch(x):
    if x[0] > 0.0:
        y = 1.0
    x[1] = y
    # CHECK: TraceError: if_else.py:[[# @LINE - 1]]: `y` is used, but it has a value only where the `if` at {{.*}}:[[# @LINE - 3]] is true (line [[# @LINE - 2]])
    # CHECK-NEXT: fix: assign `y` before the `if`, or in both branches


@refused(array(nv.f32, 64))
def two_types(x):
    if x[0] > 0.0:
        y = 1.0
    else:
        y = "one"
    x[1] = y
    # CHECK: TraceError: if_else.py:[[# @LINE - 1]]: `y` is used, but {{.*}}`if` at {{.*}}:[[# @LINE - 5]]


@refused(array(nv.f32, 64))
def value_that_left_its_branch(x):
    kept = []

    def keep():
        kept.append(x[0] * 2.0)

    if x[0] > 0.0:
        keep()
    x[1] = kept[0]
    # CHECK: TraceError: if_else.py:[[# @LINE - 5]]: an `if` on a traced condition {{.*}} changes `kept` without carrying it
    # CHECK-NEXT: rule: carried are variables
    # CHECK-NEXT: fix: make all that `kept` holds before the statement, and in it assign elements: `kept[i] = ...`
