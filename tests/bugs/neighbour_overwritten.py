"""Blocks update an array in place and read their neighbour's part of it."""

import nvdsl as nv

ARRAYS = [((132,), "float32")]


@nv.jit
def kernel(x):
    @nv.kernel(grid=4, block=32)
    def body():
        i = nv.block_id.x * 32 + nv.thread_id.x
        left, right = x[i], x[i + 4]  # simulator: raw
        nv.sync_threads()
        x[i] = left - right  # simulator: war

    body()
