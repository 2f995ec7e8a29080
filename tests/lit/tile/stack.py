# RUN: %python %s | FileCheck %s

"""stack[stage]: the tile of one stage, by an int or a traced integer."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    stack = nv.smem((4, 64, 64), nv.f16, swizzle=128)
    t = nv.thread_id.x
    # CHECK: %[[T:\w+]] = arith.index_cast %thread_id_x
    stack[t % 4][0, 0] = 1.0
    # CHECK: %[[STAGE:\w+]] = arith.andi %[[T]],
    # CHECK: gpu.printf "a stack of 4 tiles" {nvdsl.bounds = array<i64: 4>}, %[[STAGE]]
    # CHECK: %[[SIZE:\w+]] = arith.constant 8192 : i32
    # CHECK: %[[BYTE:\w+]] = arith.muli %[[STAGE]], %[[SIZE]]
    # CHECK: %[[INDEX:\w+]] = arith.index_cast %[[BYTE]]
    # CHECK: memref.view %{{.*}}[%[[INDEX]]][]{{.*}}(line [[# @LINE - 6]])
    stack[3][0, 0] = 1.0
    # CHECK: %[[LAST:\w+]] = arith.constant 24576 : index
    # CHECK: memref.view %{{.*}}[%[[LAST]]][]


@refused()
def out_of_range():
    nv.smem((4, 64, 64), nv.f16)[4]
    # CHECK: TraceError: stack.py:[[# @LINE - 1]]: stage 4 of 4
    # CHECK-NEXT: rule: stages are 0 to 3
    # CHECK-NEXT: fix: index with `k % stages`


@refused()
def element_of_a_stack():
    nv.smem((4, 64, 64), nv.f16)[0, 1, 2]
    # CHECK: TraceError: stack.py:[[# @LINE - 1]]: 3 indices for an element of a stack of tiles
    # CHECK-NEXT: rule: a stack is indexed by its stage and gives a tile
    # CHECK-NEXT: fix: stack[stage][row, col]
