# RUN: %python %s | FileCheck %s

"""copies: all threads copy a part of 16 bytes in each turn."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("copies"))
# CHECK: AFTER copies(8)
# CHECK: gpu.barrier
# CHECK: scf.for
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (16, 4) {
# CHECK: %[[V:.*]] = vector.transfer_read {{.*}} vector<1x8xf16>
# CHECK: vector.transfer_write %[[V]]
# CHECK: } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
# CHECK-NEXT: } {nvdsl.copies}
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (8, 8) {
# CHECK: gpu.barrier
