# RUN: %python %s | FileCheck %s

"""min, max, clamp, select and nv.math on traced values; exp2 and its like are instructions, not calls."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64), ptx=True)
def kernel(x):
    f = x[nv.thread_id.x]
    # CHECK: %[[F:\w+]] = memref.load
    x[0] = nv.max(f, 0)
    # CHECK: arith.maxnumf %[[F]], {{.*}}(line [[# @LINE - 1]])
    x[1] = nv.clamp(f, -1.0, 1.0)
    # CHECK: arith.maxnumf
    # CHECK: arith.minnumf
    x[2] = nv.select(f > 0.0, f, -f)
    # CHECK: arith.select
    x[3] = nv.math.exp2(f)
    # CHECK: nvvm.ex2{{.*}}%[[F]]
    x[4] = nv.math.sqrt(f)
    # CHECK: llvm.sqrt


# CHECK-LABEL: .entry kernel
# CHECK: max.f32
# CHECK: ex2.approx.f32
# CHECK: sqrt.rn.f32


@refused(3)
def of_an_integer(i):
    _ = nv.math.exp2(i)
    # CHECK: TraceError: functions.py:[[# @LINE - 1]]: exp2 of i32
    # CHECK-NEXT: rule: exp2 takes f32, f16 and bf16
    # CHECK-NEXT: fix: write nv.f32(x)


@refused(3)
def least_of_text(i):
    _ = nv.min(i, "zero")
    # CHECK: TraceError: functions.py:[[# @LINE - 1]]: min of
    # CHECK-NEXT: rule: min takes numbers


@refused(3.5)
def rounded_to_digits(x):
    round(x, 2)
    # CHECK: TraceError: functions.py:[[# @LINE - 1]]: round() of a traced value to digits
    # CHECK-NEXT: fix: write nv.math.round(x * 100.0) / 100.0


@refused(3)
def most_by_a_key(i):
    max(i, 5, key=abs)
    # CHECK: TraceError: functions.py:[[# @LINE - 1]]: max(..., key=...) of traced values
    # CHECK-NEXT: fix: write max(a, b, ...) without options


@refused(3)
def select_of_text(i):
    _ = nv.select(i > 0, i, "zero")
    # CHECK: TraceError: functions.py:[[# @LINE - 1]]: select between
    # CHECK-NEXT: rule: both are numbers, or values of one type


# CHECK-LABEL: gpu.launch
@show(3)
def bits(i):
    x = nv.popc(i)
    # CHECK: math.ctpop %{{.*}} : i32
    y = nv.clz(nv.i64(i))
    # CHECK: %[[ZEROS:.*]] = math.ctlz %{{.*}} : i64
    # CHECK: arith.trunci %[[ZEROS]] : i64 to i32
    z = nv.brev(i)
    # CHECK: llvm.call_intrinsic "llvm.bitreverse.i32"
    print(x, y, z)


@refused(3.5)
def bits_of_a_float(x):
    nv.popc(x)
    # CHECK: TraceError: functions.py:[[# @LINE - 1]]: nv.popc of f32
    # CHECK-NEXT: rule: popc takes a traced integer of 8 to 64 bits
    # CHECK-NEXT: fix: write nv.u32(x); nv.bitcast(x, nv.u32) has the bits of a float
