# RUN: %python %s | FileCheck %s

"""A traced loop carries lists, tuples and attributes element by element; what stays the same stays Python's."""

from show import array, show

import nvdsl as nv


class Place:
    pass


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64))
def kernel(x):
    sums, pair, place = [0.0, 1.0], (0, 2.5), Place()
    place.count = 0
    for i in nv.range(8):
        sums[0] += x[i]
        pair = (pair[0] + 1, pair[1])
        place.count += 2
    # CHECK: %[[END:\w+]]:{{\d}} = scf.for {{.*}} iter_args(
    # CHECK-SAME: f32
    # CHECK-SAME: i32
    # CHECK: arith.addf
    # CHECK: arith.addi
    # CHECK: arith.addi
    # CHECK: scf.yield
    x[0] = sums[0]
    # CHECK: memref.store %[[END]]#
    x[1] = place.count
    # CHECK: arith.sitofp %[[END]]#
    x[2] = pair[0]
    # CHECK: arith.sitofp %[[END]]#
    assert pair[1] == 2.5


# A nested loop and an `if` in it carry through both.
# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 8, 8))
def nested(x):
    best = -1.0
    for i in nv.range(8):
        for j in nv.range(8):
            if x[i, j] > best:
                best = x[i, j]
    # CHECK: %[[OUTER:\w+]] = scf.for {{.*}} iter_args(%[[A:\w+]] = %{{\w+}}) -> (f32)
    # CHECK: %[[INNER:\w+]] = scf.for {{.*}} iter_args(%[[B:\w+]] = %[[A]]) -> (f32)
    # CHECK: %[[BEST:\w+]] = scf.if {{.*}} -> (f32)
    # CHECK: scf.yield %[[B]] : f32
    # CHECK: scf.yield %[[BEST]] : f32
    # CHECK: scf.yield %[[INNER]] : f32
    x[0, 0] = best
    # CHECK: memref.store %[[OUTER]],
