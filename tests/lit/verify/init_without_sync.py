# RUN: %python %s | FileCheck %s

"""No barrier between mbarrier.init and other threads' use; of another block's mbarrier, none of the cluster."""

from show import array, refused

import nvdsl as nv


@refused()
def block():
    bar = nv.Mbarriers(1)[0]
    if nv.thread_id.x == 0:
        bar.init(1)
        bar.arrive()
    bar.wait(0)
    # CHECK: VerifyError: init_without_sync.py:[[# @LINE - 1]]: threads 32-127 may be here before thread 0 initialized the
    # CHECK-SAME: mbarrier at line [[# @LINE - 4]]
    # CHECK-NEXT: rule: a barrier of the block comes between mbarrier.init and the first use by another thread
    # CHECK-NEXT: fix: nv.sync_threads() behind the init


def multicast(meet):
    @nv.jit
    def host(x):
        x_tma = nv.TMA(x, tile=(16, 64))

        @nv.kernel(grid=2, block=64, cluster=2)
        def kernel():
            tile = nv.smem((16, 64), nv.f32)
            bar = nv.Mbarriers(1)[0]
            if nv.thread_id.x == 0:
                bar.init(1)
            meet()
            if nv.thread_id.x == 0:
                bar.arrive_expect_tx(2 * tile.bytes)
                x_tma.load(tile, bar, (0, 0), multicast_mask=3)
            bar.wait(0)

        kernel()

    return host


refused(array(nv.f32, 64, 64))(multicast(nv.sync_threads))
# CHECK: VerifyError: init_without_sync.py:[[# @LINE - 9]]: the mbarrier of another block of the cluster is used
# CHECK-SAME: initialized at line [[# @LINE - 14]], and the cluster hasn't met in between
# CHECK: fix: nv.fence_mbarrier_init() behind the init, then nv.cluster_sync()


def relaxed():
    nv.cluster_arrive(relaxed=True)
    nv.cluster_wait()


refused(array(nv.f32, 64, 64))(multicast(relaxed))
# CHECK: VerifyError: init_without_sync.py:[[# @LINE - 20]]: the cluster meets by a relaxed arrive, and no fence makes the
# CHECK-SAME: init at line [[# @LINE - 25]] visible
# CHECK: fix: nv.fence_mbarrier_init() behind the init
