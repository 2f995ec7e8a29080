"""A whole warp executes a TMA reduction: the tile is added 32 times."""

import nvdsl as nv

ARRAYS = [((8, 32), "float32")]


@nv.jit
def kernel(total):
    total_tma = nv.TMA(total, tile=(8, 32))

    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem((8, 32), total.dtype)
        for i in nv.range(8):
            tile[i, nv.thread_id.x] = 1.0
        nv.fence_proxy_async()
        nv.sync_warp()
        total_tma.reduce_add(tile, (0, 0))  # simulator: repeated-copy
        nv.bulk_commit_group()
        nv.bulk_wait_group(0)

    body()
