"""Two warps arrive once a round, and neither waits for the round before to be over."""

import nvdsl as nv

ARRAYS = [((16, 64), "int32"), ((6, 64), "int32")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=96)
    def body():
        rows, given = nv.smem((6, 64), nv.i32), nv.smem((2, 16, 64), nv.i32)
        came = nv.Mbarriers(2, arrivals=1)
        full = nv.Mbarriers(1, arrivals=2)[0]
        t, lane, warp = nv.thread_id.x, nv.lane_id(), nv.warp_id()
        if warp < 2:
            for k in nv.range(6):
                if lane == 0:
                    came[warp].arrive_expect_tx(given.bytes)
                    x_tma.load(given[warp], came[warp], (0, 0))
                came[warp].wait(k % 2)
                rows[k, t] = given[warp][k, t]
                nv.sync_warp()
                full.arrive(predicate=lane == 0)  # simulator: mixed-rounds
        else:
            for k in nv.range(6):
                full.wait(k % 2)
                out[k, lane] = rows[k, lane]  # simulator: raw
                out[k, lane + 32] = rows[k, lane + 32]  # simulator: raw

    body()
