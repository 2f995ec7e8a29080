"""A TMA store that hangs over the end of an array whose row is no whole 16 bytes."""

import nvdsl as nv

ARRAYS = [((100,), "float16")]


@nv.jit
def kernel(out):
    out_tma = nv.TMA(out, tile=64)  # verifier

    @nv.kernel(grid=2, block=64)
    def body():
        tile = nv.smem((64,), out.dtype)
        t = nv.thread_id.x
        tile[t] = 1.0
        nv.fence_proxy_async()
        nv.sync_threads()
        if t == 0:
            out_tma.store(tile, (nv.block_id.x * 64,))  # simulator: out-of-bounds
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    body()
