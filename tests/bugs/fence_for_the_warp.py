"""All lanes store what a bulk store reads; one of them executes the proxy fence."""

import nvdsl as nv

ARRAYS = [((8, 32), "float32")]


@nv.jit
def kernel(out):
    out_tma = nv.TMA(out, tile=(8, 32))

    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem((8, 32), nv.f32)
        t = nv.thread_id.x
        for row in nv.range(8):
            tile[row, t] = nv.f32(row - t)
        if t == 0:
            nv.fence_proxy_async()  # simulator: proxy-fence
        nv.sync_warp()
        if t == 0:
            out_tma.store(tile, (0, 0))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    body()
