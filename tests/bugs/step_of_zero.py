"""A loop whose step is a number that may be zero."""

import nvdsl as nv

ARRAYS = [((1,), "int32"), ((8,), "int32")]


@nv.jit
def kernel(step, out):
    @nv.kernel(grid=1, block=32)
    def body():
        if nv.thread_id.x == 0:
            for i in nv.range(0, 8, step[0]):  # simulator: loop-step
                out[i] = i

    body()
