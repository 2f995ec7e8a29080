"""Two branches call a collective of the block each, and their threads meet in the two calls."""

import nvdsl as nv

ARRAYS = [((64,), "float32"), ((64,), "float32")]


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=1, block=64)
    def body():
        t, scratch = nv.thread_id.x, nv.smem(2, nv.f32)
        if t < 32:
            out[t] = nv.block.sum(x[t], scratch=scratch)  # verifier, simulator: divergent-collective
        else:
            out[t] = nv.block.max(x[t], scratch=scratch)  # verifier, simulator: divergent-collective

    body()
