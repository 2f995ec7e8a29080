# RUN: %python %s | FileCheck %s

"""tile_fragments: loops over tiles of one instruction, in the order i, j, k."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("tile_fragments"))
# CHECK: AFTER tile_fragments(16, 16, 16)
# CHECK: scf.for %[[I:.*]] = %c0 to %c32 step %c16
# CHECK-NEXT: scf.for %[[J:.*]] = %c0 to %c32 step %c16
# CHECK: linalg.fill {{.*}} memref<16x16xf32
# CHECK: gpu.barrier
# CHECK: gpu.barrier
# CHECK: scf.for %[[I:.*]] = %c0 to %c32 step %c16
# CHECK-NEXT: scf.for %[[J:.*]] = %c0 to %c32 step %c16
# CHECK-NEXT: scf.for %[[K:.*]] = %c0 to %c32 step %c16
# CHECK-NEXT: memref.subview %{{.*}}[%[[I]], %[[K]]] [16, 16]
# CHECK-NEXT: memref.subview %{{.*}}[%[[K]], %[[J]]] [16, 16]
# CHECK-NEXT: memref.subview %{{.*}}[%[[I]], %[[J]]] [16, 16]
# CHECK-NEXT: linalg.matmul
