# RUN: %python %s | FileCheck %s

"""launch: loops over blocks, warps and threads become ids."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("launch"))
# CHECK: AFTER launch()
# CHECK: gpu.launch blocks({{.*}}) in (%{{.*}} = %c2, %{{.*}} = %c2, %{{.*}} = %c1) threads({{.*}}) in (%{{.*}} = %c64, %{{.*}} = %c1, %{{.*}} = %c1)
# CHECK-NOT: scf.forall
# CHECK: gpu.block_id
# CHECK: gpu.thread_id x
# CHECK-NOT: scf.forall
# CHECK: gpu.terminator
