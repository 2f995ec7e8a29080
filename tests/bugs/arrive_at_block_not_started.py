"""An arrival at the mbarrier of a block that may not have begun."""

import nvdsl as nv

ARRAYS = [((64,), "float32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=2, block=32, cluster=2)
    def body():
        ready = nv.Mbarriers(1, arrivals=1)[0]
        t, rank = nv.thread_id.x, nv.cluster_rank()
        ready.arrive_cluster(rank ^ 1, t == 0)  # verifier, simulator: init-sync
        ready.wait(0)
        out[rank * 32 + t] = 1
        nv.cluster_sync()

    body()
