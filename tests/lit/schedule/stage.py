# RUN: %python %s | FileCheck %s

"""stage: tiles in shared memory, copies into them, barriers."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("stage"))
# CHECK: AFTER stage()
# CHECK: %[[B:.*]] = memref.alloc() : memref<32x64xf16, #gpu.address_space<workgroup>>
# CHECK: %[[A:.*]] = memref.alloc() : memref<32x32xf16, #gpu.address_space<workgroup>>
# CHECK: scf.for
# CHECK: gpu.barrier
# CHECK-NEXT: linalg.copy {{.*}} outs(%[[A]]
# CHECK-NEXT: gpu.barrier
# CHECK-NEXT: linalg.copy {{.*}} outs(%[[B]]
# CHECK-NEXT: gpu.barrier
# CHECK-NEXT: linalg.matmul ins(%[[A]], %[[B]]

change(sc.matmul(64, 128, 64), [sc.tile_blocks(32, 64, 32), sc.stage()])
# CHECK: step stage(): the product is still on tensors
# CHECK-NEXT: rule: buffers have a memory space
# CHECK-NEXT: fix: bufferize() before
