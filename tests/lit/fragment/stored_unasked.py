# RUN: %python %s | FileCheck %s

"""What no store of a fragment, a vector or a number does unasked: cut floats to integers, make tf32."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.i32, 64, 16))
def sums(out):
    nv.accumulator(64, 16).store(out, (0, 0))
    # CHECK: TraceError: stored_unasked.py:[[# @LINE - 1]]: a traced f32 stored into an array of i32
    # CHECK-NEXT: rule: a store does not cut a float to an integer unasked
    # CHECK-NEXT: fix: write nv.i32(x), which cuts toward zero


@refused()
def sums_in_a_tile():
    nv.accumulator(64, 16).store(nv.smem((64, 16), nv.u8))
    # CHECK: TraceError: stored_unasked.py:[[# @LINE - 1]]: a traced f32 stored into an array of u8


@refused(array(nv.f32, 64))
def number(x):
    nv.smem((64, 32), nv.tf32, swizzle=128)[0, 0] = x[0]
    # CHECK: TraceError: stored_unasked.py:[[# @LINE - 1]]: a number stored into memory of tf32
    # CHECK-NEXT: rule: no register holds a tf32
    # CHECK-NEXT: fix: make the memory nv.f32, which wgmma and mma.sync read as tf32


@refused(array(nv.f32, 64))
def vector(x):
    nv.smem((64, 32), nv.tf32, swizzle=128).store_vector(x.vector(0, 4), (0, 0))
    # CHECK: TraceError: stored_unasked.py:[[# @LINE - 1]]: a number stored into memory of tf32


@refused()
def fragment():
    nv.accumulator(64, 32).store(nv.smem((64, 32), nv.tf32, swizzle=128))
    # CHECK: TraceError: stored_unasked.py:[[# @LINE - 1]]: a number stored into memory of tf32
