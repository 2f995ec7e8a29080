# RUN: %python %s | FileCheck %s

"""mask: arrays have their own extents again, and what lies outside of them is not touched."""

from stages import change

from nvdsl import schedule as sc

change(sc.matmul(64, 60, 64), [*sc.mma_steps((32, 64, 32), (32, 32), stages=2), sc.mask()])
# CHECK: BEFORE mask()
# CHECK: func.func @matmul(%{{.*}}: memref<64x64xf16>, %{{.*}}: memref<64x64xf16>, %{{.*}}: memref<64x64xf32>)
# CHECK: AFTER
# CHECK: func.func @matmul(%{{.*}}: memref<64x64xf16>, %[[B:.*]]: memref<64x60xf16>, %[[C:.*]]: memref<64x60xf32>) {
# CHECK: arith.cmpi slt, %{{.*}}, %c60 : index
# CHECK: %[[VALID:.*]] = arith.select %{{.*}}, %c4, %c0 : index
# CHECK: nvgpu.device_async_copy %[[B]][{{.*}}], %{{.*}}[{{.*}}], 4, %[[VALID]]
# CHECK: scf.if %{{.*}} {
# CHECK: vector.store %{{.*}}, %[[C]]

change(sc.matmul(60, 64, 64), [*sc.wmma_steps((32, 64, 32), (32, 32)), sc.mask()])
# CHECK: AFTER mask()
# CHECK: %[[TILE:.*]] = memref.alloc() : memref<2x16x16xf32, #gpu.address_space<workgroup>>
# CHECK: scf.if %{{.*}} -> (vector<8xf16>) {
# CHECK: } else {
# CHECK-NEXT: scf.yield %cst
# CHECK: scf.if %{{.*}} {
# CHECK: gpu.subgroup_mma_store_matrix %{{.*}}, %arg2
# CHECK: } else {
# CHECK-NEXT: gpu.subgroup_mma_store_matrix %{{.*}}, %[[TILE]]
# CHECK: nvvm.bar.warp.sync
# CHECK: memref.store
# CHECK: nvvm.bar.warp.sync

change(sc.matmul(60, 64, 64), [sc.tile_blocks(32, 64, 32), sc.bufferize(), sc.mask()])
# CHECK: mask.py:[[# @LINE - 1]]: step mask(): there is no gpu.launch
# CHECK-NEXT: rule: it works on one gpu.launch
# CHECK-NEXT: fix: launch() before
