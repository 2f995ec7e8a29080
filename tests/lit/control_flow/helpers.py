# RUN: %python %s | FileCheck %s

"""Helpers are ordinary functions: their control flow is traced, too, and their ops carry their own lines."""

from show import array, show

import nvdsl as nv


def clipped(value, most):
    if value > most:
        value = most
    return value


class Doubled:
    def __init__(self, x):
        self.x = x

    def at(self, i):
        return self.x[i] * 2.0 if i > 0 else 0.0


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64))
def kernel(x):
    t = nv.thread_id.x
    y = clipped(x[t], 3.0)
    # CHECK: %[[X:\w+]] = memref.load {{.*}}(line [[# @LINE - 1]])
    # CHECK: %[[MORE:\w+]] = arith.cmpf ogt, %[[X]], {{.*}}(line [[# @LINE - 19]])
    # CHECK: %[[Y:\w+]] = scf.if %[[MORE]] -> (f32) {
    # CHECK: scf.yield %[[X]] : f32
    z = Doubled(x).at(t)
    # CHECK: %[[Z:\w+]] = scf.if {{.*}} -> (f32) {
    # CHECK: arith.mulf {{.*}}(line [[# @LINE - 14]])
    x[t] = y + z
    # CHECK: arith.addf %[[Y]], %[[Z]]


# min, max, sum, any and all mean the traced thing.
# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64))
def builtins(x):
    t = nv.thread_id.x
    x[0] = min(t, 5) + max(1, t, 7)
    # CHECK: arith.minsi
    # CHECK-COUNT-2: arith.maxsi
    x[1] = sum([x[0], t, 1])
    # CHECK-COUNT-2: arith.addi
    if any([t == 1, t == 2]):
        # CHECK: arith.select {{.*}} : i1
        # CHECK: scf.if
        x[2] = abs(t)
