"""An mbarrier is invalidated while other threads may still wait on it."""

import nvdsl as nv

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        bar = nv.Mbarriers(1, arrivals=64)[0]
        t = nv.thread_id.x
        bar.arrive()
        bar.wait(0)  # simulator: init-sync
        if t == 0:
            bar.invalidate()  # simulator: mbarrier-in-use
        out[t] = t

    body()
