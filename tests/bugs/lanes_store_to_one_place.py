"""Four lanes at a time store different values to one element."""

import nvdsl as nv

ARRAYS = [((32,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=32)
    def body():
        t = nv.thread_id.x
        last = nv.smem((8,), nv.i32)
        last[t // 4] = t  # simulator: lanes-store
        nv.sync_warp()
        out[t] = last[t // 4]

    body()
