"""A loop whose condition is made of nothing that the loop changes."""

import nvdsl as nv

ARRAYS = [((4, 64), "float32"), ((1,), "float32")]


@nv.jit
def kernel(x, out):
    @nv.kernel(grid=1, block=32)
    def body():
        total, row, step = nv.f32(0), nv.i32(0), nv.i32(1)
        while row < x.shape[0]:  # verifier, simulator: endless-loop
            total += x[row, nv.thread_id.x]
            step += 1
        out[0] = nv.warp.sum(total + nv.f32(step))

    body()
