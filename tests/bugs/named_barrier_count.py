"""A named barrier that waits for more threads than come."""

import nvdsl as nv

ARRAYS = [((128,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=128)
    def body():
        if nv.thread_id.x < 64:
            nv.named_barrier_sync(1, 96)  # verifier, simulator: deadlock
        out[nv.thread_id.x] = 1

    body()
