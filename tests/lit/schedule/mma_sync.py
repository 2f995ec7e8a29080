# RUN: %python %s | FileCheck %s

"""mma_sync: vectors become registers, by ldmatrix and mma.sync; a transposed A's parts are put in order."""

from stages import change

from nvdsl import schedule as sc

STEPS = sc.mma_steps((32, 64, 32), (32, 32))[:-2]

change(sc.matmul(64, 128, 64), STEPS)
# CHECK: AFTER mma_sync()
# CHECK-NOT: vector<16x
# CHECK: %[[A:.*]] = nvgpu.ldmatrix {{.*}} {numTiles = 4 : i32, transpose = false} : {{.*}} -> vector<4x2xf16>
# CHECK: %[[B:.*]] = nvgpu.ldmatrix {{.*}} {numTiles = 2 : i32, transpose = true} : {{.*}} -> vector<2x2xf16>
# CHECK: nvgpu.mma.sync(%[[A]], %[[B]], %{{.*}}) {mmaShape = [16, 8, 16]}
# CHECK: vector.store {{.*}} vector<2xf32>

change(sc.matmul(64, 128, 64, transpose_a=True), STEPS)
# CHECK: AFTER mma_sync()
# CHECK: %[[A:.*]] = nvgpu.ldmatrix {{.*}} {numTiles = 4 : i32, transpose = true} : {{.*}} -> vector<4x2xf16>
# CHECK: %[[IN_ORDER:.*]] = vector.shuffle %[[A]], %{{.*}} [0, 2, 1, 3]
# CHECK: nvgpu.mma.sync(%[[IN_ORDER]],

change(sc.matmul(64, 128, 64), [*STEPS[:-2], sc.mma_sync()])
# CHECK: mma_sync.py:[[# @LINE - 1]]: step mma_sync(): vector.transfer_write has no form on registers
# CHECK-NEXT: rule: MLIR distributes products whose sums are loaded and stored, or carried by a loop
# CHECK-NEXT: fix: hoist_sums() before
