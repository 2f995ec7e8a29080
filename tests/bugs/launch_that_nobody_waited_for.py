"""A programmatic launch uses what the launch before the last one wrote."""

import nvdsl as nv
from nvdsl.ops import cluster

ARRAYS = [((32,), "float32"), ((32,), "float32"), ((32,), "float32")]


@nv.jit
def kernel(x, y, out):
    @nv.kernel(grid=1, block=32)
    def produce():
        cluster.griddep_launch_dependents()
        y[nv.thread_id.x] = x[nv.thread_id.x] + 1.0

    @nv.kernel(grid=1, block=32, programmatic=True)
    def unrelated():
        cluster.griddep_launch_dependents()

    @nv.kernel(grid=1, block=32, programmatic=True)
    def consume():
        nv.griddep_wait()
        out[nv.thread_id.x] = y[nv.thread_id.x]  # simulator: grid-dependency

    produce()
    unrelated()
    consume()
