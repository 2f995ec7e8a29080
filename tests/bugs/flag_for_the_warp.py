"""One lane raises a flag for data that all lanes of its warp wrote."""

import nvdsl as nv
from nvdsl.ops import memory

ARRAYS = [((1,), "int32"), ((32,), "int32"), ((32,), "int32")]


@nv.jit
def kernel(flag, data, out):
    @nv.kernel(grid=2, block=32)
    def body():
        t = nv.thread_id.x
        if nv.block_id.x == 0:
            data[t] = 3 * t
            if t == 16:
                memory.store_release(flag, 0, 1)  # simulator: warp-sync
        else:
            if t == 0:
                raised = memory.load_acquire(flag, 0)
                while raised == 0:
                    raised = memory.load_acquire(flag, 0)
            nv.sync_warp()
            out[t] = data[t]

    body()
