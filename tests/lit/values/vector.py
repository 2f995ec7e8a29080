# RUN: %python %s | FileCheck %s

"""nv.vector builds a vector of numbers; v.to, v.sum, v.max, v.min and v[i:j] are of its elements."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 64), ptx=True)
def kernel(x):
    v = nv.vector([x[0], 1, 2.5, x[3]])
    # CHECK: %[[V:\w+]] = vector.from_elements {{.*}} : vector<4xf16> (line [[# @LINE - 1]])
    x.store_vector(v[2:], 8)
    # CHECK: %[[PART:\w+]] = vector.shuffle %[[V]], %[[V]] [2, 3] : vector<4xf16>, vector<4xf16> (line [[# @LINE - 1]])
    # CHECK: vector.store %[[PART]], {{.*}} : memref<64xf16>, vector<2xf16>
    w = v.to(nv.f32)
    # CHECK: %[[W:\w+]] = arith.extf %[[V]] : vector<4xf16> to vector<4xf32> (line [[# @LINE - 1]])
    x[1] = w.sum()
    # CHECK: %[[LOW:\w+]] = vector.shuffle %[[W]], %[[W]] [0, 1]
    # CHECK: %[[HIGH:\w+]] = vector.shuffle %[[W]], %[[W]] [2, 3]
    # CHECK: arith.addf %[[LOW]], %[[HIGH]] : vector<2xf32>
    # CHECK: arith.addf %{{.*}}, %{{.*}} : f32
    x[2] = x.vector(8, 8).sum()
    # CHECK: arith.addf {{.*}} : vector<4xf16> (line [[# @LINE - 1]])
    # CHECK: arith.addf {{.*}} : vector<2xf16> (line [[# @LINE - 2]])


# CHECK-LABEL: .entry kernel
# CHECK-COUNT-3: add.rn.f16x2


@refused(array(nv.f16, 64))
def of_nothing(x):
    nv.vector([])
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: nv.vector of no elements
    # CHECK-NEXT: rule: a vector is built of one number or more


@refused(array(nv.f16, 64), array(nv.e4m3, 64))
def of_types_that_do_not_meet(x, y):
    nv.vector([x[0], y[0]])
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: nv.vector of f16 and e4m3
    # CHECK-NEXT: rule: the elements of a vector have one type


@refused(array(nv.f16, 64))
def no_part(x):
    x.vector(0, 4)[2:2]
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: a vector of 4 f16[2:2]
    # CHECK-NEXT: rule: a part of a vector takes one element or more, which are known while tracing


@refused(array(nv.f16, 64))
def assigned(x):
    v = x.vector(0, 4)
    v[0] = 1.0
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: an element of a vector is assigned
    # CHECK-NEXT: rule: a traced value doesn't change: each is computed once


@refused(array(nv.f16, 64))
def of_a_number(x):
    x[0].sum()
    # CHECK: TraceError: vector.py:[[# @LINE - 1]]: .sum() of a traced number
