"""Shared memory is read that nothing has written."""

import nvdsl as nv

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        s = nv.smem((64,), nv.i32)
        t = nv.thread_id.x
        if t < 63:
            s[t] = t
        nv.sync_threads()
        out[t] = s[t]  # simulator: uninitialized

    body()
