# RUN: %python %s | FileCheck %s

"""vectorize: each tile of a tensor core is a vector."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("vectorize"))
# CHECK: AFTER vectorize()
# CHECK: vector.transfer_write %{{.*}} : vector<16x16xf32>
# CHECK: gpu.barrier
# CHECK: gpu.barrier
# CHECK: vector.transfer_read {{.*}} vector<16x16xf16>
# CHECK: vector.transfer_read {{.*}} vector<16x16xf16>
# CHECK: vector.transfer_read {{.*}} vector<16x16xf32>
# CHECK: vector.contract {{.*}} vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
# CHECK: vector.transfer_write %{{.*}} : vector<16x16xf32>
