"""A vector access at an address that is no multiple of its size, which only the run knows."""

import nvdsl as nv

ARRAYS = [((64,), "float32"), ((64,), "float32")]


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=1, block=8)
    def body():
        i = nv.thread_id.x * 4 + nv.i32(x[0]) + 1
        out.store_vector(x.load_vector(i, 4), i)  # simulator: misaligned

    body()
