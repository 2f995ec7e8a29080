"""An arrival at the mbarrier of a block that may have returned."""

import nvdsl as nv

ARRAYS = [((64,), "float32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=2, block=32, cluster=2)
    def body():
        done = nv.Mbarriers(1, arrivals=1, sync=False)[0]
        t, rank = nv.thread_id.x, nv.cluster_rank()
        nv.cluster_sync()
        out[rank * 32 + t] = 1
        done.arrive_cluster(rank ^ 1, t == 0)  # simulator: exited-block
        if rank == 0:
            done.wait(0)

    body()
