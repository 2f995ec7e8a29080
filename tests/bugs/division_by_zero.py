"""An integer is divided by a number that may be zero."""

import nvdsl as nv

ARRAYS = [((32,), "int32"), ((32,), "int32")]


@nv.jit
def kernel(n, out):
    @nv.kernel(grid=1, block=32)
    def body():
        t = nv.thread_id.x
        out[t] = 1000 // n[t]  # simulator: division

    body()
