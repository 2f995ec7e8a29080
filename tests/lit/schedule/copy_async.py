# RUN: %python %s | FileCheck %s

"""copy_async: three buffers, copies by cp.async two turns ahead, a wait for one group and one barrier in a turn."""

from stages import change

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 256), sc.mma_steps((32, 64, 32), (32, 32), stages=3, without=["prefetch"]))
# CHECK: AFTER copy_async(3)
# CHECK-DAG: memref.alloc() : memref<3x32x64xf16, #gpu.address_space<workgroup>>
# CHECK-DAG: memref.alloc() : memref<3x32x32xf16, #gpu.address_space<workgroup>>
# CHECK-COUNT-6: nvgpu.device_async_copy {{.*}}, 8 {bypassL1}
# CHECK: nvgpu.device_async_create_group
# CHECK-COUNT-6: nvgpu.device_async_copy
# CHECK: %[[TOKEN:.*]] = nvgpu.device_async_create_group
# CHECK-NEXT: scf.for
# CHECK: nvgpu.device_async_wait %[[TOKEN]] {numGroups = 1 : i32}
# CHECK-NEXT: gpu.barrier
# CHECK: %[[VALID:.*]] = arith.select %{{.*}}, %c8, %c0
# CHECK-COUNT-6: nvgpu.device_async_copy {{.*}}, 8, %[[VALID]]
# CHECK: nvgpu.device_async_create_group
# CHECK: nvgpu.ldmatrix
# CHECK-NOT: gpu.barrier
# CHECK: scf.yield
# CHECK: nvgpu.device_async_wait %[[TOKEN]] {numGroups = 0 : i32}

change(sc.matmul(64, 128, 256), [*sc.mma_steps((32, 64, 32), (32, 32), without=["hide_latency"]), sc.copy_async(1)])
# CHECK: copy_async.py:[[# @LINE - 1]]: step copy_async(1): 1 buffers
# CHECK-NEXT: rule: one is multiplied while others are filled
# CHECK-NEXT: fix: copy_async(3)
