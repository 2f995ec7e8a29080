"""A warp arrives at the cluster's barrier a second time without a wait in between."""

import nvdsl as nv

ARRAYS = [((64,), "float32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=2, block=32, cluster=2)
    def body():
        full = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        t, rank = nv.thread_id.x, nv.cluster_rank()
        nv.cluster_arrive()
        if t == 0:
            full.arrive()
        full.wait(0)
        nv.cluster_sync()  # verifier, simulator: cluster-barrier
        out[rank * 32 + t] = 1

    body()
