"""A buffer is written again while other warps still read it."""

import nvdsl as nv

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        s = nv.smem((64,), nv.i32)
        t = nv.thread_id.x
        total = nv.i32(0)
        for i in nv.range(4):
            s[t] = t + i  # simulator: war
            nv.sync_threads()
            total += s[(t + 32) % 64]  # simulator: raw
        out[t] = total

    body()
