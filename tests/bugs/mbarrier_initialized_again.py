"""An mbarrier in use is initialized again."""

import nvdsl as nv

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        bar = nv.Mbarriers(1, arrivals=64)[0]
        t = nv.thread_id.x
        bar.arrive()
        bar.wait(0)
        nv.sync_threads()
        if t == 0:
            bar.init(2)  # simulator: mbarrier-live
            nv.fence_mbarrier_init()
        nv.sync_threads()
        bar.arrive(predicate=t % 32 == 0)
        bar.wait(0)
        out[t] = t

    body()
