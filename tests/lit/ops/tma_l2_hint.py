# RUN: %python %s | FileCheck %s

"""l2_hint of loads, stores, reductions and prefetches: a 64-bit cache policy; with a predicate and a mask, too."""

from show import array, show

import nvdsl as nv
from nvdsl.ops.tma import TMA


# CHECK-LABEL: gpu.launch clusters
@show(array(nv.f32, 64), ptx=True)
@nv.jit
def host(a):
    tma = TMA((64,), a.type)
    tma.create_descriptor(a)

    @nv.kernel(grid=2, block=128, cluster=2)
    def kernel():
        box = nv.smem((64,), a.dtype)
        barrier = nv.Mbarriers(1)[0]
        first = nv.thread_id.x == 0
        # CHECK: %[[FIRST:\w+]] = arith.cmpi eq
        tma.load(box, barrier, [0], l2_hint=nv.L2_EVICT_LAST)
        # CHECK: %[[LAST:\w+]] = arith.constant 1508705875169116160 : i64
        # CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} l2_cache_hint = %[[LAST]] : {{.*}}(line [[# @LINE - 2]])
        tma.load(box, barrier, [0], l2_hint=nv.L2_EVICT_FIRST, predicate=first, multicast_mask=3)
        # CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global
        # CHECK-SAME: multicast_mask = %{{.*}} l2_cache_hint = %{{.*}} predicate = %[[FIRST]] :
        tma.store(box, [0], l2_hint=nv.L2_EVICT_FIRST)
        # CHECK-NOT: scf.if
        # CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta {{.*}} l2_cache_hint = %
        tma.store(box, [0], l2_hint=nv.L2_EVICT_FIRST, predicate=first)
        # CHECK: scf.if %[[FIRST]] {
        # CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta {{.*}} l2_cache_hint = %
        tma.reduce_add(box, [0], l2_hint=nv.L2_EVICT_NORMAL)
        # CHECK: nvvm.cp.async.bulk.tensor.reduce {{.*}} l2_cache_hint = %
        tma.prefetch_box([0], l2_hint=nv.L2_EVICT_NORMAL)
        # CHECK: nvvm.cp.async.bulk.tensor.prefetch {{.*}} l2_cache_hint = %

    kernel()


# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint
# CHECK: @%p{{.*}} cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint
# CHECK: cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group.L2::cache_hint
# CHECK: @%p{{.*}} cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.L2::cache_hint
# CHECK: cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group.L2::cache_hint
# CHECK: cp.async.bulk.prefetch.tensor.1d.L2.global.tile.L2::cache_hint
