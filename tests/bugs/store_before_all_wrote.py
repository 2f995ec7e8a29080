"""One thread hands a tile to TMA before the others have written it."""

import nvdsl as nv

ARRAYS = [((16, 64), "float32")]


@nv.jit
def kernel(out):
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((16, 64), out.dtype)
        t = nv.thread_id.x
        for i in nv.range(16):
            tile[i, t] = nv.f32(i * 64 + t)
        nv.fence_proxy_async()
        if t == 0:
            out_tma.store(tile, (0, 0))  # simulator: raw
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    body()
