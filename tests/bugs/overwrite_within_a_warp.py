"""A lane overwrites what its neighbour may not have read yet."""

import nvdsl as nv

ARRAYS = [((32,), "float32"), ((32,), "float32")]


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=1, block=32)
    def body():
        row = nv.smem((32,), nv.f32)
        t = nv.thread_id.x
        row[t] = x[t]
        nv.sync_warp()
        left = row[(t + 31) % 32]
        row[t] = left + 1.0  # simulator: warp-sync
        out[t] = row[t]

    body()
