"""Threads of two warps count in the same bins without an atomic."""

import nvdsl as nv

ARRAYS = [((64,), "int32"), ((8,), "int32")]


@nv.jit
def kernel(x, bins):
    @nv.kernel(grid=1, block=64)
    def body():
        s, t = nv.smem((8,), nv.i32), nv.thread_id.x
        if t < 8:
            s[t] = 0
        nv.sync_threads()
        if nv.lane_id() == 0:
            s[x[t]] += 1  # simulator: raw, simulator: war
        nv.sync_threads()
        if t < 8:
            bins[t] = s[t]

    body()
