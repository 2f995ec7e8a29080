"""An index past the last row of a tile: it reads the first row of the tile behind it."""

import nvdsl as nv

ARRAYS = [((17, 64), "float32"), ((16, 64), "float32")]


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        rows = nv.smem((16, 64), x.dtype)
        sums = nv.smem((16, 64), x.dtype)
        for i in nv.range(16):
            rows[i, t] = x[i, t]
            sums[i, t] = 0.0
        nv.sync_threads()
        for i in nv.range(16):
            sums[i, t] += rows[i, t] + rows[i + 1, t]  # verifier, simulator: out-of-bounds
            out[i, t] = sums[i, t]

    body()
