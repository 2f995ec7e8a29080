# RUN: %python %s | FileCheck %s

"""Rows and columns: a comparison of the two is one comparison with a constant for each register."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    acc = nv.accumulator(64, 16)
    seen = acc.rows + nv.block_id.x >= acc.cols + 3
    # CHECK: %[[ROW:\w+]] = arith.addi
    # CHECK: %[[D:\w+]] = arith.subi
    # CHECK: arith.cmpi sge, %[[D]], %c0_i32
    # CHECK: arith.cmpi sge, %[[D]], %c1_i32
    # CHECK: arith.cmpi sge, %[[D]], %c8_i32
    # CHECK-NOT: arith.addi
    # CHECK: arith.cmpi sge, %[[D]], %c-8_i32
    # CHECK-COUNT-3: arith.cmpi sge, %[[D]],
    nv.sched_barrier(nv.where(seen, acc, 0.0))
    # CHECK-COUNT-8: arith.select
