# RUN: %python %s | FileCheck %s

"""TMA.load(multicast_mask=...): bit r writes the box in block r of the cluster, too."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.ops.tma import TMA


def load(mask, cluster):
    @nv.jit
    def host(a):
        tma = TMA((64,), a.type)
        tma.create_descriptor(a)

        @nv.kernel(grid=4, block=128, cluster=cluster)
        def kernel():
            box = nv.smem((64,), a.dtype)
            tma.load(box, nv.Mbarriers(1)[0], [0], multicast_mask=mask() if callable(mask) else mask)
            # CHECK-LABEL: gpu.launch clusters
            # CHECK: %[[MASK:\w+]] = arith.constant 11 : i16
            # CHECK: nvgpu.tma.async.load {{.*}} multicast_mask = %[[MASK]] : {{.*}}(line [[# @LINE - 3]])
            # CHECK-LABEL: .entry kernel
            # CHECK: .multicast::cluster [%{{.*}}], [%{{.*}}, {%{{.*}}}], [__dynamic_shmem__0+256], %rs
            # CHECK-LABEL: gpu.launch clusters
            # CHECK: %[[ROW:\w+]] = arith.shli
            # CHECK: %[[HALF:\w+]] = arith.trunci %[[ROW]] : i32 to i16
            # CHECK: nvgpu.tma.async.load {{.*}} multicast_mask = %[[HALF]] :
            # CHECK: TraceError: tma_multicast.py:[[# @LINE - 10]]: multicast_mask=0b11 in a cluster of 1 blocks
            # CHECK-NEXT: rule: bit r stands for block r of the cluster, 0 to 0 (PTX ISA, cp.async.bulk.tensor, ctaMask)
            # CHECK-NEXT: fix: launch with cluster=..., or clear the bits of the blocks that are not there
            # CHECK: TraceError: tma_multicast.py:[[# @LINE - 13]]: multicast_mask=0b0 in a cluster of 2 blocks

        kernel()

    return host


show(array(nv.f32, 64), ptx=True)(load(0b1011, cluster=4))
show(array(nv.f32, 64))(load(lambda: nv.i32(0b101) << nv.cluster_rank(), cluster=4))
refused(array(nv.f32, 64))(load(0b11, cluster=1))
refused(array(nv.f32, 64))(load(0, cluster=2))
