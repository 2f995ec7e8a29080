"""Atomics count in shared memory that nobody has set to zero."""

import nvdsl as nv

ARRAYS = [((64,), "int32"), ((8,), "int32")]


@nv.jit
def kernel(x, bins):
    @nv.kernel(grid=1, block=64)
    def body():
        s, t = nv.smem((8,), nv.i32), nv.thread_id.x
        s.atomic_add(x[t], 1)  # simulator: uninitialized
        nv.sync_threads()
        if t < 8:
            bins[t] = s[t]

    body()
