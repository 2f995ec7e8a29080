"""An index beyond the end of an array."""

import nvdsl as nv

ARRAYS = [((100,), "float32"), ((100,), "float32")]


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=2, block=64)
    def body():
        i = nv.block_id.x * 64 + nv.thread_id.x
        out[i] = x[i]  # simulator: out-of-bounds

    body()
