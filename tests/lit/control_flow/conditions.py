# RUN: %python %s | FileCheck %s

"""and, or, not, chained comparisons and `x if c else y` on traced values; the right operand runs under the left one."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64))
def kernel(x):
    t = nv.thread_id.x
    inside = t > 1 and t < 9
    # CHECK: %[[A:\w+]] = arith.cmpi sgt
    # CHECK: %[[B:\w+]] = arith.cmpi slt
    # CHECK: %[[AND:\w+]] = arith.select %[[A]], %[[B]], %{{\w+}} : i1
    chained = 1 < t <= 9
    # CHECK: arith.cmpi
    # CHECK: arith.cmpi sle
    # CHECK: arith.select
    guarded = inside and x[t] > 0
    # CHECK: %[[GUARDED:\w+]] = scf.if %[[AND]] -> (i1) {
    # CHECK: memref.load {{.*}}(line [[# @LINE - 2]])
    # CHECK: } else {
    either = not chained or guarded
    # CHECK: %[[NOT:\w+]] = arith.xori
    # CHECK: arith.select %[[NOT]], %{{\w+}}, %[[GUARDED]] : i1
    x[t] = 3 if either else t
    # CHECK: %[[CHOICE:\w+]] = arith.select %{{\w+}}, %{{\w+}}, %{{\w+}} : i32
    # CHECK: memref.store %[[CHOICE]],
    assert (True and 5) == 5 and (0 or "x") == "x"


@refused(array(nv.i32, 64))
def integer(x):
    x[0] = 1 if x[1] and x[2] > 0 else 0
    # CHECK: TraceError: conditions.py:[[# @LINE - 1]]: `and` takes a condition, and was given a value of type i32
    # CHECK-NEXT: rule: a traced condition is a bool (i1)
    # CHECK-NEXT: fix: compare it: `x != 0`


@refused(array(nv.i32, 64))
def number_beside_a_condition(x):
    y = x[1] > 0 or 5
    x[0] = y
    # CHECK: TraceError: conditions.py:[[# @LINE - 2]]: `or` of a traced condition and the Python int 5
    # CHECK-NEXT: rule: the result must be one traced bool, so the right operand is a condition, too


@refused(array(nv.i32, 64))
def two_types(x):
    y = x[0] if x[1] > 0 else "zero"
    x[0] = y
    # CHECK: TraceError: conditions.py:[[# @LINE - 2]]: `x if c else y` on a traced condition gives
    # CHECK-NEXT: rule: both values of a traced choice have the same type
    # CHECK-NEXT: fix: convert one of them, for example nv.f32(x)
