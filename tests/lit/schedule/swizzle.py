# RUN: %python %s | FileCheck %s

"""swizzle: an exclusive or of the column with the row, at copies and at ldmatrix; rows of 64 bytes share a pattern in
pairs."""

from stages import change

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), sc.mma_steps((32, 64, 32), (32, 32))[:-1])
# CHECK: AFTER swizzle()
# CHECK: %[[ROW:.*]] = arith.remui %{{.*}}, %c4
# CHECK-NEXT: %[[PATTERN:.*]] = arith.muli %[[ROW]], %c8
# CHECK-NEXT: %[[COLUMN:.*]] = arith.xori %{{.*}}, %[[PATTERN]]
# CHECK-NEXT: vector.transfer_write %{{\w+}}, %[[A:\w+]][%{{\w+}}, %[[COLUMN]]] {{.*}} memref<32x32xf16
# CHECK: arith.xori
# CHECK: nvgpu.ldmatrix %[[A]][

change(sc.matmul(64, 128, 64), sc.wmma_steps((32, 64, 32), (32, 32), without=["pad"]) + [sc.swizzle()])
# CHECK: swizzle.py:[[# @LINE - 1]]: step swizzle(): gpu.subgroup_mma_load_matrix of a tile
# CHECK-NEXT: rule: accesses are of at most 16 bytes that are one part of a row
