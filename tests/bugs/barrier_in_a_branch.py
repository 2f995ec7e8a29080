"""A barrier of the block that only a part of its threads reaches."""

import nvdsl as nv

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        if nv.thread_id.x < 32:
            nv.sync_threads()  # verifier, simulator: deadlock
        out[nv.thread_id.x] = 1

    body()
