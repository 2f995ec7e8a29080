"""A shuffle reads a lane that does not execute it."""

import nvdsl as nv

ARRAYS = [((32,), "int32"), ((32,), "int32")]


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=1, block=32)
    def body():
        t = nv.thread_id.x
        if t < 8:
            out[t] = nv.shuffle_down(x[t], 4, mask=0xFF)  # simulator: divergent-collective

    body()
