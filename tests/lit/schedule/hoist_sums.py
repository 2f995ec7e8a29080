# RUN: %python %s | FileCheck %s

"""hoist_sums: C is what the loop over K carries."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("hoist_sums"))
# CHECK: AFTER hoist_sums()
# CHECK: %[[SUMS:.*]]:4 = scf.for {{.*}} iter_args(%[[SUM:\w+]] = %{{.*}}, {{.*}}) -> (vector<16x16xf32>, {{.*}})
# CHECK-NOT: vector<16x16xf32>, memref
# CHECK: vector.contract {{.*}} %[[SUM]] :
# CHECK: scf.yield
# CHECK: vector.transfer_write %[[SUMS]]#3

change(sc.matmul(64, 128, 64), [*until("launch"), sc.hoist_sums()])
# CHECK: hoist_sums.py:[[# @LINE - 1]]: step hoist_sums(): loops over tiles of a tensor core
# CHECK-NEXT: rule: each sum is a value of its own
# CHECK-NEXT: fix: unroll('fragments') before
