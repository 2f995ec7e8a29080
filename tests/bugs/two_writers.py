"""Two warps store different values to the same bytes."""

import nvdsl as nv

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        s = nv.smem((32,), nv.i32)
        t = nv.thread_id.x
        s[t % 32] = t  # simulator: waw
        nv.sync_threads()
        out[t] = s[t % 32]

    body()
