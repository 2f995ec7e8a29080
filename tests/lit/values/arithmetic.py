# RUN: %python %s | FileCheck %s

"""Operators of traced values: the op follows the type and its sign; // and % round down as Python's do."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[I:\w+]]: i32, %[[J:\w+]]: i32, %[[F:\w+]]: f32
@show(3, 4, 1.5)
def kernel(i, j, f):
    _ = i + j
    # CHECK: arith.addi %[[I]], %[[J]] : i32 (line [[# @LINE - 1]])
    _ = 2 - i
    # CHECK: arith.subi %{{\w+}}, %[[I]]
    _ = f * i
    # CHECK: %[[AS_FLOAT:\w+]] = arith.sitofp %[[I]] : i32 to f32
    # CHECK: arith.mulf %[[F]], %[[AS_FLOAT]]
    _ = f / 2
    # CHECK: arith.divf
    _ = i // 8
    # CHECK: arith.shrsi
    _ = i % 8
    # CHECK: %[[SEVEN:\w+]] = arith.constant 7 : i32
    # CHECK: arith.andi %[[I]], %[[SEVEN]]
    _ = i // j
    # CHECK: %[[CUT:\w+]] = arith.divsi %[[I]], %[[J]]
    # CHECK: %[[LESS:\w+]] = arith.extui %{{\w+}} : i1 to i32
    # CHECK: arith.subi %[[CUT]], %[[LESS]]
    u = nv.u32(i)
    _ = u // nv.u32(j)
    # CHECK: arith.divui %[[I]], %[[J]]
    _ = u >> 3
    # CHECK: arith.shrui
    _ = i >> 3
    # CHECK: arith.shrsi
    _ = ~i & j | 5 ^ i
    # CHECK: arith.andi
    # CHECK: arith.xori
    # CHECK: arith.ori
    _ = -f
    # CHECK: arith.negf %[[F]]
    _ = f**3
    # CHECK-COUNT-2: arith.mulf


@refused(3, 1.5)
def slash_on_integers(i, f):
    _ = i / 2
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: / on i32
    # CHECK-NEXT: rule: / divides floats (and index, as signed numbers, rounding down; LLVM's examples divide unsigned)
    # CHECK-NEXT: fix: write x // y, nv.u32(x) // y for an unsigned division, or nv.f32(x) / y


@refused(3, 1.5)
def bits_of_a_float(i, f):
    _ = f & 1
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: & on f32


@refused(3, 1.5)
def literal_that_does_not_fit(i, f):
    _ = i + (1 << 40)
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: 1099511627776 does not fit i32
    # CHECK-NEXT: rule: i32 holds -2147483648 .. 2147483647
    # CHECK-NEXT: fix: use a wider type


@refused(3, 1.5)
def by_zero(i, f):
    _ = i // 0
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: // by zero


@refused(3, 1.5)
def power_of_a_traced_exponent(i, f):
    _ = 2**i
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: ** with a traced exponent
    # CHECK-NEXT: rule: ** takes a traced value to the power of a Python int


@refused(3, 1.5)
def negative_power_of_an_integer(i, f):
    _ = i**-1
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: i32 ** -1
    # CHECK-NEXT: rule: a power of an integer has an exponent >= 0


@refused(3, 1.5)
def shift_by_more_than_there_is(i, f):
    _ = i << 32
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: << by 32 on i32
    # CHECK-NEXT: rule: the count is 0 .. 31


@refused(array(nv.e4m3, 8))
def fp8(x):
    _ = x[0] + x[1]
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: + on e4m3
    # CHECK-NEXT: rule: only tensor cores compute with e4m3
