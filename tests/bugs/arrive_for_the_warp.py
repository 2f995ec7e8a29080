"""One lane arrives for a warp whose other lanes may not have stored yet."""

import nvdsl as nv

ARRAYS = [((32,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        row = nv.smem((32,), nv.i32)
        ready = nv.Mbarriers(1, arrivals=1)[0]
        lane = nv.lane_id()
        if nv.warp_id() == 1:
            row[lane] = lane * lane
            ready.arrive(predicate=lane == 0)  # simulator: warp-sync
        else:
            ready.wait(0)
            out[lane] = row[31 - lane]

    body()
