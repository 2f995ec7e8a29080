"""A TMA store of a tile of which one row was never written."""

import nvdsl as nv

ARRAYS = [((8, 32), "float32")]


@nv.jit
def kernel(out):
    out_tma = nv.TMA(out, tile=(8, 32))

    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem((8, 32), out.dtype)
        for i in nv.range(1, 8):
            tile[i, nv.thread_id.x] = 1.0
        nv.fence_proxy_async()
        nv.sync_warp()
        if nv.thread_id.x == 0:
            out_tma.store(tile, (0, 0))  # simulator: uninitialized
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    body()
