# RUN: %python %s | FileCheck %s

"""arrive(count=...): several arrivals by one instruction; a ring's release for consumers that leave a slot to another."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True, grid=2, cluster=2)
def kernel():
    barrier = nv.Mbarriers(1)[0]
    barrier.arrive(count=3)
    # CHECK: %[[THREE:\w+]] = arith.constant 3 : i32
    # CHECK: nvvm.mbarrier.arrive %{{.*}}, %[[THREE]] : {{.*}}(line [[# @LINE - 2]])
    ring = nv.Ring(2, bytes=16, consumers=(4, 128), sync=False)
    # CHECK: arith.constant 132 : index
    state = ring.consumer_state()
    ring.release(state, nv.lane_id() == 0, count=4)
    # CHECK: scf.if
    # CHECK: nvvm.mbarrier.arrive %{{.*}}, %{{.*}} :
    ring.release(state, nv.lane_id() == 0, rank=1, count=2)
    # CHECK: nvvm.mbarrier.arrive %{{.*}}, %{{.*}} {relaxed = true, scope = #nvvm.mem_scope<cluster>}


# CHECK-LABEL: .entry kernel
# CHECK: mbarrier.arrive{{.*}}b64 {{.*}}, %r{{[0-9]+}};
# CHECK: @%p{{[0-9]+}} mbarrier.arrive.shared.b64 _, [%r{{[0-9]+}}], %r{{[0-9]+}};
# CHECK: @%p{{[0-9]+}} mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%rd{{[0-9]+}}], %r{{[0-9]+}};


@refused()
def never():
    nv.Mbarriers(1)[0].arrive(count=0)
    # CHECK: TraceError: arrive_count.py:[[# @LINE - 1]]: 0 arrivals at an mbarrier at once


@refused()
def with_bytes():
    nv.Mbarriers(1)[0].arrive(256, count=2)
    # CHECK: TraceError: arrive_count.py:[[# @LINE - 1]]: an arrival with a count and with txcount


@refused()
@nv.jit
def too_few():
    @nv.kernel(grid=1, block=64)
    def kernel():
        barrier = nv.Mbarriers(1, arrivals=8)[0]
        if nv.thread_id.x == 0:
            barrier.arrive(count=7)
        if nv.warp_id() == 1:
            barrier.wait(0)
            # CHECK: VerifyError: arrive_count.py:[[# @LINE - 5]]: the mbarrier waits for 8 arrivals, and 7 arrive

    kernel()
