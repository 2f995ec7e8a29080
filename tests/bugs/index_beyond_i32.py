"""A position is counted in i32, and the array has more elements than that."""

import nvdsl as nv

ARRAYS = [((32,), "float32"), ((1,), "int32")]


@nv.jit
def kernel(x, rows):
    @nv.kernel(grid=1, block=32)
    def body():
        count = (rows[0] + 65536) * 65536  # simulator: overflow
        i = nv.thread_id.x
        if i < count:
            x[i] = 1.0

    body()
