# RUN: %python %s | FileCheck %s

"""permute: k becomes the outermost of the three loops."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("permute"))
# CHECK: AFTER permute('kij')
# CHECK: gpu.barrier
# CHECK: gpu.barrier
# CHECK: scf.for %[[K:.*]] = %c0 to %c32 step %c16
# CHECK-NEXT: scf.for %[[I:.*]] = %c0 to %c32 step %c16
# CHECK-NEXT: scf.for %[[J:.*]] = %c0 to %c32 step %c16
# CHECK-NEXT: memref.subview %{{.*}}[%[[I]], %[[K]]] [16, 16]
# CHECK-NEXT: memref.subview %{{.*}}[%[[K]], %[[J]]] [16, 16]
# CHECK-NEXT: memref.subview %{{.*}}[%[[I]], %[[J]]] [16, 16]
# CHECK-NEXT: linalg.matmul
