"""A tensor map with a box of more than 256 elements along an axis."""

import nvdsl as nv

ARRAYS = [((512, 64), "float16"), ((512, 64), "float16")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(512, 64))  # verifier

    @nv.kernel(grid=1, block=32)
    def body():
        out[0, nv.thread_id.x] = x[0, nv.thread_id.x]
        x_tma.prefetch()

    body()
