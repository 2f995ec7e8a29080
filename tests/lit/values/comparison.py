# RUN: %python %s | FileCheck %s

"""Comparisons follow the sign; a float's are false for NaN, but for `!=`."""

from show import show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[I:\w+]]: i32, %[[F:\w+]]: f32
@show(3, 1.5)
def kernel(i, f):
    _ = i < 5
    # CHECK: arith.cmpi slt, %[[I]], %{{\w+}} : i32 (line [[# @LINE - 1]])
    _ = nv.u32(i) < 5
    # CHECK: arith.cmpi ult, %[[I]],
    _ = 5 >= i
    # CHECK: arith.cmpi sle, %[[I]],
    _ = i == 5
    # CHECK: arith.cmpi eq
    _ = f > 1
    # CHECK: arith.cmpf ogt, %[[F]],
    _ = f != 1.0
    # CHECK: arith.cmpf une, %[[F]],
    _ = f == i
    # CHECK: arith.sitofp %[[I]]
    # CHECK: arith.cmpf oeq
