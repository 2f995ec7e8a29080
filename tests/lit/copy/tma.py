# RUN: %python %s | FileCheck %s

"""nv.copy with a tensor map: one thread of the group starts the boxes."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 128, 128))
@nv.jit
def host(x):
    x_tma = nv.TMA(x, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=2, block=128)
    def kernel():
        tile = nv.smem((64, 64), nv.f16, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        full.arrive_expect_tx(tile.bytes, nv.thread_id.x == 0)
        plan = nv.copy(x_tma, tile, coords=(nv.block_id.x * 64, 0), barrier=full)
        # CHECK: scf.if %{{.*}} {
        # CHECK: nvgpu.tma.async.load {{.*}} (line [[# @LINE - 2]])
        assert plan.instruction == "cp.async.bulk.tensor"
        full.wait(0)
        nv.copy(tile, x_tma, coords=(nv.block_id.x * 64, 64))
        # CHECK: nvgpu.tma.async.store {{.*}} (line [[# @LINE - 1]])
        nv.bulk_commit_group()
        nv.bulk_wait_group(0)

    kernel()


@refused(array(nv.f16, 128, 128))
@nv.jit
def without_a_barrier(x):
    x_tma = nv.TMA(x, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=2, block=128)
    def kernel():
        nv.copy(x_tma, nv.smem((64, 64), nv.f16, swizzle=128), coords=(0, 0))
        # CHECK: TraceError: tma.py:[[# @LINE - 1]]: nv.copy from a tensor map without a barrier
        # CHECK-NEXT: rule: a TMA copy has the coordinates of its box; a load completes on an mbarrier

    kernel()
