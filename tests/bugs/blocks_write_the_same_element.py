"""Two blocks store to the same element of an array."""

import nvdsl as nv

ARRAYS = [((32,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=2, block=32)
    def body():
        out[nv.thread_id.x] = nv.block_id.x  # simulator: waw

    body()
