"""Scratch memory at an offset counted by hand lies in the last row of a tile."""

import nvdsl as nv

ARRAYS = [((8, 32), "float32"), ((8, 32), "float32")]


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=1, block=32)
    def body():
        t = nv.thread_id.x
        tile = nv.smem((8, 32), x.dtype)
        for i in nv.range(8):
            tile[i, t] = x[i, t]
        scratch = nv.get_dynamic_shared_memory((32,), nv.f32.ir, 7 * 128)  # verifier, simulator: overlap
        scratch[t] = tile[0, t] * 2.0
        for i in nv.range(8):
            out[i, t] = tile[i, t] + scratch[t]

    body()
