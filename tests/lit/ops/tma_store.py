# RUN: %python %s | FileCheck %s

"""TMA.store: a box of shared memory to global memory, in the thread's bulk group."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.ops.tma import TMA


# CHECK-LABEL: func.func @host
@show(array(nv.f16, 64, 64), ptx=True)
@nv.jit
def host(a):
    tma = TMA((16, 64), a.type)
    tma.create_descriptor(a)
    # CHECK: %[[MAP:\w+]] = nvgpu.tma.create.descriptor

    @nv.kernel(grid=1, block=128)
    def kernel():
        box = nv.smem((16, 64), a.dtype).panel(0)
        # CHECK: %[[BOX:\w+]] = memref.view
        tma.store(box, [0, 32])
        # CHECK: %[[COL:\w+]] = arith.constant 0 : index
        # CHECK: %[[ROW:\w+]] = arith.constant 32 : index
        # CHECK: nvgpu.tma.async.store %[[BOX]] to %[[MAP]][%[[COL]], %[[ROW]]] : {{.*}}(line [[# @LINE - 3]])
        tma.store(box, [0, 0], predicate=nv.thread_id.x == 0)
        # CHECK: %[[FIRST:\w+]] = arith.cmpi eq
        # CHECK: nvgpu.tma.async.store {{.*}}, predicate = %[[FIRST]] :

    kernel()


# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd{{.*}}, {%r{{.*}}}], [__dynamic_shmem__0];
# CHECK: @%p{{.*}} cp.async.bulk.tensor.2d.global.shared::cta.bulk_group


@refused(array(nv.f16, 64, 64))
@nv.jit
def too_few_coordinates(a):
    tma = TMA((16, 64), a.type)
    tma.create_descriptor(a)

    @nv.kernel(grid=1, block=128)
    def kernel():
        tma.store(nv.smem((16, 64), a.dtype).panel(0), [0])
        # CHECK: TraceError: tma_store.py:[[# @LINE - 1]]: 1 coordinates for a box of shape [16, 64]

    kernel()
