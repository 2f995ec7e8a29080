"""A barrier that only some lanes of a warp reach."""

import nvdsl as nv

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        if nv.thread_id.x % 2 == 0:
            nv.sync_threads()  # verifier, simulator: divergent-barrier
        out[nv.thread_id.x] = 1

    body()
