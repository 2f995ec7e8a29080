"""A warp reads what another one stored, with no barrier in between."""

import nvdsl as nv

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        s = nv.smem((64,), nv.i32)
        t = nv.thread_id.x
        s[t] = t  # simulator: war
        out[t] = s[(t + 32) % 64]  # simulator: raw

    body()
