"""A block addresses a block of its cluster that does not exist."""

import nvdsl as nv

ARRAYS = [((1,), "int32"), ((64,), "int32")]


@nv.jit
def kernel(n, out):
    @nv.kernel(grid=2, block=32, cluster=2)
    def body():
        bar = nv.Mbarriers(1, arrivals=64)[0]
        nv.cluster_sync()
        bar.arrive_cluster(n[0] + 2)  # simulator: cluster-rank
        nv.cluster_sync()
        out[nv.block_id.x * 32 + nv.thread_id.x] = 1

    body()
