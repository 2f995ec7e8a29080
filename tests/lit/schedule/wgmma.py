# RUN: %python %s | FileCheck %s

"""wgmma: one thread fills a ring by TMA, warpgroups multiply, and an element of C is finished in its registers."""

from stages import change

import nvdsl as nv
from nvdsl import schedule as sc

steps = sc.wgmma_steps((128, 128, 64), 3, without=["persistent"])
change(sc.matmul(256, 128, 256, then=lambda x, b: nv.max(x + b, 0.0), operands=["n"]), steps)
# CHECK: AFTER wgmma(3, 2)
# CHECK-DAG: nvgpu.tma.create.descriptor {{.*}} memref<128x64xf16, 3>, swizzle = swizzle_128b
# CHECK-DAG: nvgpu.tma.create.descriptor {{.*}} memref<64x64xf16, 3>, swizzle = swizzle_128b
# CHECK: gpu.launch {{.*}} = %c384
# CHECK: nvgpu.mbarrier.init
# CHECK: gpu.barrier
# CHECK: nvvm.setmaxregister decrease 40
# CHECK: scf.for
# CHECK: nvgpu.mbarrier.try_wait.parity
# CHECK: nvgpu.mbarrier.arrive.expect_tx
# CHECK-COUNT-3: nvgpu.tma.async.load
# CHECK: } else {
# CHECK: nvvm.setmaxregister increase 232
# CHECK: scf.for {{.*}} iter_args(%[[SUM:\w+]] =
# CHECK: nvgpu.mbarrier.try_wait.parity
# CHECK: nvvm.wgmma.fence.aligned
# CHECK: nvvm.wgmma.mma_async %{{.*}}, %{{.*}}, %[[SUM]], <m = 64, n = 128, k = 16>, {{.*}} A[<f16>, <one>, <row>], B[<f16>, <one>, <row>]
# CHECK: nvvm.wgmma.commit.group.sync.aligned
# CHECK: nvvm.wgmma.wait.group.sync.aligned 1
# CHECK: nvgpu.mbarrier.arrive
# CHECK: nvvm.wgmma.wait.group.sync.aligned 0
# CHECK: arith.addf
# CHECK: arith.maxnumf
# CHECK: vector.store {{.*}} vector<4xf32>

change(sc.matmul(256, 128, 256, transpose_a=True, transpose_b=True, batch=2), steps)
# CHECK: AFTER wgmma(3, 2)
# CHECK-DAG: nvgpu.tma.create.descriptor {{.*}} memref<1x64x64xf16, 3>, swizzle = swizzle_128b
# CHECK-DAG: nvgpu.tma.create.descriptor {{.*}} memref<1x128x64xf16, 3>, swizzle = swizzle_128b
# CHECK: nvvm.wgmma.mma_async {{.*}} A[<f16>, <one>, <col>], B[<f16>, <one>, <col>]

change(sc.matmul(256, 128, 192), sc.wgmma_steps((128, 128, 64), 2))
# CHECK: AFTER wgmma(2, 2)
# CHECK: nvvm.setmaxregister decrease 40
# CHECK: scf.for %[[TILE:\w+]] = %block_id_x to %c2 step %c2 iter_args(%[[BEFORE:\w+]] = %c0)
# CHECK: scf.for %[[TURN:\w+]] = %c0 to %c3 step %c1
# CHECK-NEXT: %[[COUNT:.*]] = arith.addi %[[BEFORE]], %[[TURN]]
# CHECK: nvgpu.tma.async.load
# CHECK: } else {
# CHECK: scf.for {{.*}} = %block_id_x to %c2 step %c2
# CHECK: nvvm.wgmma.mma_async
# CHECK: nvvm.wgmma.wait.group.sync.aligned 0
# CHECK: nvgpu.mbarrier.arrive
# CHECK: vector.store

change(sc.matmul(256, 128, 256, nv.f32), sc.wgmma_steps((128, 128, 32), 3))
# CHECK: step wgmma(3, 2): a product of f32 whose operands do not have K along their rows
# CHECK-NEXT: rule: wgmma transposes 16-bit types alone (PTX ISA, wgmma.mma_async, imm-trans)
# CHECK-NEXT: fix: transpose_b=True, or wmma()
