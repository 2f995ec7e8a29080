"""A flag that is still raised from the launch before."""

import nvdsl as nv
from nvdsl.ops import memory

ARRAYS = [((1,), "int32"), ((32,), "int32"), ((2, 32), "int32")]


@nv.jit
def kernel(flag, data, out):
    def launch(n):
        @nv.kernel(grid=2, block=32)
        def body():
            t = nv.thread_id.x
            if nv.block_id.x == 0:
                data[t] = n * 100 + t  # simulator: war
                nv.sync_threads()
                if t == 0:
                    memory.store_release(flag, 0, 1)
            else:
                if t == 0:
                    while memory.load_acquire(flag, 0) != 1:  # simulator: stale-flag
                        pass
                nv.sync_threads()
                out[n, t] = data[t]

        body()

    launch(0)
    launch(1)
