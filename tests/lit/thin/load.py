# RUN: %python %s | FileCheck %s

"""A kernel that is loaded from text: its launch, with the shared global behind the dynamic bytes."""

import nvdsl as nv
from nvdsl import thin

loaded = thin.load("""
gpu.module @m {
  memref.global "private" @tile : memref<32xf32, #gpu.address_space<workgroup>>
  gpu.func @copy(%x: memref<?xf32>) kernel {
    %tile = memref.get_global @tile : memref<32xf32, #gpu.address_space<workgroup>>
    %thread = gpu.thread_id x
    %value = memref.load %x[%thread] : memref<?xf32>
    memref.store %value, %tile[%thread] : memref<32xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}
""")
# CHECK: func.func @copy(%[[X:.*]]: memref<32xf32>)
# CHECK-DAG: %[[BYTES:.*]] = arith.constant 1152 : i32
# CHECK: gpu.launch clusters({{.*}} dynamic_shared_memory_size %[[BYTES]] module(@copy) function(@copy)
# CHECK-NEXT: %[[OPEN:.*]] = memref.cast %[[X]] : memref<32xf32> to memref<?xf32>
# CHECK-NEXT: %[[BLOCK:.*]] = gpu.dynamic_shared_memory
# CHECK-NEXT: %[[START:.*]] = arith.constant 1024 : index
# CHECK-NEXT: %[[TILE:.*]] = memref.view %[[BLOCK]][%[[START]]]
# CHECK: memref.load %[[OPEN]]
# CHECK: memref.store %{{.*}}, %[[TILE]]
# CHECK: gpu.terminator
print(loaded["copy"].trace(nv.ShapeDtype((32,), nv.f32), grid=2, block=32, cluster=2, smem=16))
