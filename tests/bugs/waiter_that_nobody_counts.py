"""A warp follows a ring's full barriers without releasing its slots."""

import nvdsl as nv

ARRAYS = [((96,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=96)
    def body():
        full, empty = nv.Mbarriers(1, arrivals=32)[0], nv.Mbarriers(1, arrivals=32)[0]
        warp = nv.warp_id()
        if warp == 0:
            for k in nv.range(6):
                empty.wait(1 - k % 2)
                full.arrive()
        elif warp == 1:
            for k in nv.range(6):
                full.wait(k % 2)
                empty.arrive()
        else:
            for k in nv.range(6):
                full.wait(k % 2)  # simulator: lapped-wait
        out[nv.thread_id.x] = warp

    body()
