# RUN: %python %s | FileCheck %s

"""nv.T(x) converts a value, and makes a constant of a number; bitcast keeps the bits."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
# CHECK-SAME: %[[I:\w+]]: i32, %[[F:\w+]]: f32
@show(3, 1.5, ptx=True)
def kernel(i, f):
    _ = nv.f16(2)
    # CHECK: arith.constant 2.000000e+00 : f16 (line [[# @LINE - 1]])
    _ = nv.i64(i)
    # CHECK: arith.extsi %[[I]] : i32 to i64
    _ = nv.u64(nv.u32(i))
    # CHECK: arith.extui %[[I]] : i32 to i64
    _ = nv.i8(i)
    # CHECK: arith.trunci %[[I]] : i32 to i8
    _ = nv.index(i)
    # CHECK: arith.index_cast %[[I]] : i32 to index
    _ = nv.f32(nv.u32(i))
    # CHECK: arith.uitofp %[[I]] : i32 to f32
    _ = nv.i32(f)
    # CHECK: arith.fptosi %[[F]] : f32 to i32
    _ = nv.bf16(f)
    # CHECK: arith.truncf %[[F]] : f32 to bf16
    _ = nv.bool_(i)
    # CHECK: arith.cmpi ne, %[[I]],
    _ = nv.e4m3(f)
    # CHECK: nvvm.convert.f32x2.to.f8x2
    _ = nv.tf32(f)
    # CHECK: nvvm.convert.float.to.tf32
    nv.bitcast(f, nv.u32)
    # CHECK: arith.bitcast %[[F]] : f32 to i32
    nv.const(7)
    # CHECK: arith.constant 7 : index
    nv.const(7, nv.u8)
    # CHECK: arith.constant 7 : i8


@refused(3, 1.5)
def too_large(i, f):
    _ = nv.u8(256)
    # CHECK: TraceError: casts.py:[[# @LINE - 1]]: 256 does not fit u8
    # CHECK-NEXT: rule: u8 holds 0 .. 255


@refused(3, 1.5)
def infinite_integer(i, f):
    _ = nv.i32(float("inf"))
    # CHECK: TraceError: casts.py:[[# @LINE - 1]]: inf as i32
    # CHECK-NEXT: rule: integers have no NaN and no infinity


@refused(3, 1.5)
def infinite_e4m3(i, f):
    _ = nv.e4m3(float("inf"))
    # CHECK: TraceError: casts.py:[[# @LINE - 1]]: e4m3 has no infinity


@refused(3, 1.5)
def bits_of_a_number(i, f):
    nv.bitcast(1.5, nv.i32)
    # CHECK: TraceError: casts.py:[[# @LINE - 1]]: bitcast of 1.5
    # CHECK-NEXT: rule: a number has no bits
    # CHECK-NEXT: fix: write nv.f32(x) first


@refused(3, 1.5)
def no_number(i, f):
    _ = nv.f32("1")
    # CHECK: TraceError: casts.py:[[# @LINE - 1]]: '1' is not a number


@refused(3, 1.5)
def widths_differ(i, f):
    nv.bitcast(f, nv.i64)
    # CHECK: TraceError: casts.py:[[# @LINE - 1]]: bitcast from f32 to i64
    # CHECK-NEXT: rule: both types have the same number of bits


@refused(array(nv.f32, 4))
def array_for_a_number(a):
    _ = nv.f16(a)
    # CHECK: TraceError: casts.py:[[# @LINE - 1]]: Array(shape=(4,), dtype=f32) is not a number
