# RUN: %python %s | FileCheck %s

"""merge_barriers: a barrier between two copies into two buffers orders nothing."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("merge_barriers"))
# CHECK: AFTER merge_barriers()
# CHECK: gpu.barrier
# CHECK-NEXT: linalg.copy
# CHECK-NEXT: linalg.copy
# CHECK-NEXT: gpu.barrier
# CHECK-NEXT: linalg.matmul
