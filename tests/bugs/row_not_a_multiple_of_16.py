"""A tensor map of an array whose rows are no multiple of 16 bytes."""

import nvdsl as nv

ARRAYS = [((16, 50), "float16"), ((16, 50), "float16")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(16, 32))  # verifier, launch

    @nv.kernel(grid=1, block=32)
    def body():
        out[0, nv.thread_id.x] = x[0, nv.thread_id.x]
        x_tma.prefetch()

    body()
