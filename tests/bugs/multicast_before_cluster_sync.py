"""A multicast completes on an mbarrier that the other block may not have initialized."""

import nvdsl as nv

ARRAYS = [((16, 64), "float32"), ((32, 64), "float32")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=2, block=64, cluster=2)
    def body():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t, rank = nv.thread_id.x, nv.cluster_rank()
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            if rank == 0:
                x_tma.load(tile, full, (0, 0), multicast_mask=3)  # verifier, simulator: init-sync
        full.wait(0)
        for i in nv.range(16):
            out[rank * 16 + i, t] = tile[i, t]
        nv.cluster_sync()

    body()
