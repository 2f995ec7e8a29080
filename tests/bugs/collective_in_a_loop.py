"""A collective in a loop that some threads leave before others."""

import nvdsl as nv

ARRAYS = [((100,), "float32"), ((1,), "float32")]


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=1, block=64)
    def body():
        total = nv.f32(0.0)
        for i in nv.range(nv.thread_id.x, x.shape[0], 64):
            total += nv.block.sum(x[i])  # simulator: divergent-collective
        if nv.thread_id.x == 0:
            out[0] = total

    body()
