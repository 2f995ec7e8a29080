"""A block with more shared memory than an SM gives one."""

import nvdsl as nv

ARRAYS = [((16, 64), "float32"), ((16, 64), "float32")]


@nv.jit
def kernel(x, out, *, stages=5):
    @nv.kernel(grid=1, block=64)
    def body():
        tiles = nv.smem((stages, 256, 64), x.dtype)
        t = nv.thread_id.x
        tiles[0][0, t] = x[0, t]
        out[0, t] = tiles[0][0, t]

    body()  # verifier
