# RUN: %python %s | FileCheck %s

"""prefetch: the loop carries the first tiles of the next turn, which are loaded before the last products."""

from stages import change

from nvdsl import schedule as sc

STEPS = sc.mma_steps((32, 64, 32), (32, 64), stages=3)

change(sc.matmul(64, 128, 256), STEPS)
# CHECK: AFTER prefetch()
# CHECK: nvgpu.device_async_wait
# CHECK-NEXT: gpu.barrier
# CHECK: %[[FIRST:.*]] = nvgpu.ldmatrix
# CHECK: scf.for {{.*}} iter_args({{.*}}%[[NOW:[a-z0-9]+]] = %[[FIRST]]
# CHECK: nvgpu.mma.sync(%[[NOW]],
# CHECK: nvgpu.device_async_wait
# CHECK-NEXT: gpu.barrier
# CHECK: %[[NEXT:.*]] = nvgpu.ldmatrix
# CHECK: nvgpu.mma.sync
# CHECK: scf.yield {{.*}}, %[[NEXT]]

change(sc.matmul(64, 128, 256), sc.mma_steps((32, 64, 32), (32, 64)) + [sc.prefetch()])
# CHECK: prefetch.py:[[# @LINE - 1]]: step prefetch(): a turn without one barrier behind a wait, and a product for each sum
# CHECK-NEXT: rule: the last products run while the first tiles of the next turn are loaded
# CHECK-NEXT: fix: hoist_sums(), mma_sync() or wmma(), and copy_async() before
