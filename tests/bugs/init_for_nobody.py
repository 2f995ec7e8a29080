"""An mbarrier whose number of arrivals is computed, and comes out as 0."""

import nvdsl as nv

ARRAYS = [((64,), "int32"), ((1,), "int32")]


@nv.jit
def kernel(out, waves):
    @nv.kernel(grid=1, block=64)
    def body():
        done = nv.Mbarriers(1)[0]
        if nv.thread_id.x == 0:
            done.init(waves[0] * 64)  # simulator: mbarrier-count
            nv.fence_mbarrier_init()
        nv.sync_threads()
        done.arrive()
        done.wait(0)
        out[nv.thread_id.x] = 1

    body()
