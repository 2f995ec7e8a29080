# RUN: %python %s | FileCheck %s

"""TMA.prefetch_box: a box into L2, without shared memory or an mbarrier."""

from show import array, show

import nvdsl as nv
from nvdsl.ops.tma import TMA


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 8, 8, 32), ptx=True)
@nv.jit
def host(a):
    tma = TMA((1, 8, 32), a.type)
    tma.create_descriptor(a)

    @nv.kernel(grid=1, block=128)
    def kernel():
        tma.prefetch_box([0, 0, nv.block_id.x])
        # CHECK: %[[BLOCK:\w+]] = arith.index_cast %{{.*}} : index to i32
        # CHECK: nvvm.cp.async.bulk.tensor.prefetch %{{.*}}, box[{{.*}}, %[[BLOCK]]] : !llvm.ptr (line [[# @LINE - 2]])

    kernel()


# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%rd{{.*}}, {%r{{.*}}}];
