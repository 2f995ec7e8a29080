# RUN: %python %s | FileCheck %s

"""wmma: vectors become matrices of a warp, transposed ones with both layouts."""

from stages import change, until

import nvdsl as nv
from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64, transpose_b=True), until("wmma"))
# CHECK: AFTER wmma()
# CHECK-NOT: vector<16x16
# CHECK: %[[A:.*]] = gpu.subgroup_mma_load_matrix %{{.*}} {leadDimension = 40 : index} : {{.*}} -> !gpu.mma_matrix<16x16xf16, "AOp">
# CHECK: %[[B:.*]] = gpu.subgroup_mma_load_matrix %{{.*}} {leadDimension = 40 : index, transpose} : {{.*}} -> !gpu.mma_matrix<16x16xf16, "BOp">
# CHECK: gpu.subgroup_mma_compute %[[A]], %[[B]], %{{.*}} {b_transpose}
# CHECK: gpu.subgroup_mma_store_matrix

change(sc.matmul(64, 128, 64, nv.bf16), until("wmma"))
# CHECK: step wmma(): a product of bf16
# CHECK-NEXT: rule: MLIR's !gpu.mma_matrix holds no bf16
