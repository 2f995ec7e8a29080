# RUN: %python %s | FileCheck %s

"""An operation of the user's gets what lower lanes have first, on both sides of a butterfly's step."""

from show import array, refused, show

import nvdsl as nv


def later(a, b):
    if b > a:
        a = b
    return a * 2.0


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 32), block=32)
def kernel(x):
    t = nv.thread_id.x
    x[t] = nv.warp.reduce(x[t], later, width=2)
    # CHECK: %[[MINE:\w+]] = memref.load
    # CHECK: %[[OTHER:\w+]] = nvvm.shfl.sync bfly %{{.*}}, %[[MINE]],
    # CHECK: %[[LOWER:\w+]] = arith.cmpi eq
    # CHECK: %[[A:\w+]] = arith.select %[[LOWER]], %[[MINE]], %[[OTHER]]
    # CHECK: %[[B:\w+]] = arith.select %[[LOWER]], %[[OTHER]], %[[MINE]]
    # CHECK: arith.cmpf ogt, %[[B]], %[[A]]
    # CHECK: scf.if


@refused(array(nv.f16, 32), block=32)
def another_type(x):
    t = nv.thread_id.x
    x[t] = nv.warp.reduce(x[t], lambda a, b: nv.f32(a) + nv.f32(b))
    # CHECK: TraceError: warp_reduce.py:[[# @LINE - 1]]: the operation of nv.warp.reduce makes f32 of f16
    # CHECK-NEXT: rule: its result takes the place of its arguments: it has their types
    # CHECK-NEXT: fix: convert in the operation, nv.f16(a + b)


@refused(array(nv.f32, 32), block=32)
def a_keyword(x):
    _ = nv.block.sum(x[0], mask=3)
    # CHECK: TraceError: warp_reduce.py:[[# @LINE - 1]]: TypeError: nv.block() got an unexpected keyword argument 'mask'


@refused(array(nv.f32, 32), block=32)
def a_tile(x):
    _ = nv.warp.sum(nv.smem((8, 8), nv.f32))
    # CHECK: TraceError: warp_reduce.py:[[# @LINE - 1]]: nv.warp.sum of Tile(
    # CHECK-NEXT: rule: a collective takes a number, a vector of numbers, or a tuple of these


@refused(array(nv.f32, 32), block=32)
def two_initial_values(x):
    _ = nv.warp.exclusive_scan(x[0], lambda a, b: a * b, (1.0, 2.0))
    # CHECK: TraceError: warp_reduce.py:[[# @LINE - 1]]: nv.warp.exclusive_scan with 2 initial values for 1
    # CHECK-NEXT: rule: the first thread gets the initial value


@refused(array(nv.f32, 32), block=32)
def an_array(x):
    _ = nv.warp.sum(x)
    # CHECK: TraceError: warp_reduce.py:[[# @LINE - 1]]: nv.warp.sum of
    # CHECK-NEXT: rule: a collective takes a number, a vector of numbers, or a tuple of these
    # CHECK-NEXT: fix: load the thread's element first: x[i]
