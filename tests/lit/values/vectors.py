# RUN: %python %s | FileCheck %s

"""Operators work element by element on vectors, beside a scalar too; v[i] is an element."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 64))
def kernel(x):
    v = x.load_vector(0, 4)
    # CHECK: %[[V:\w+]] = vector.load
    assert v.shape == (4,) and len(v) == 4
    w = v * v[1]
    # CHECK: %[[ONE:\w+]] = vector.extract %[[V]][1] : f16 from vector<4xf16> (line [[# @LINE - 1]])
    # CHECK: %[[ALL:\w+]] = vector.broadcast %[[ONE]] : f16 to vector<4xf16>
    # CHECK: %[[W:\w+]] = arith.mulf %[[V]], %[[ALL]] : vector<4xf16>
    x.store_vector(w, 8)
    # CHECK: vector.store %[[W]],
    x[0] = sum(v)
    # CHECK-COUNT-3: arith.addf


@refused(array(nv.f16, 64))
def no_such_element(x):
    x.load_vector(0, 4)[4]
    # CHECK: TraceError: vectors.py:[[# @LINE - 1]]: subscript 4 of a vector
    # CHECK-NEXT: rule: an integer in -4 .. 3


@refused(array(nv.f16, 64))
def two_subscripts(x):
    x.load_vector(0, 4)[0, 0]
    # CHECK: TraceError: vectors.py:[[# @LINE - 1]]: 2 subscripts for a vector of shape (4,)


@refused(array(nv.f16, 64))
def two_lengths(x):
    x.load_vector(0, 4) + x.load_vector(0, 2)
    # CHECK: TraceError: vectors.py:[[# @LINE - 1]]: + on vector<4xf16> and vector<2xf16>
    # CHECK-NEXT: rule: two vectors have the same shape
