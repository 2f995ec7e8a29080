"""Two warps take a ring's slots in turn, and neither waits for those of the other."""

import nvdsl as nv

ARRAYS = [((16, 32), "float32"), ((16, 32), "float32")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(1, 32))

    @nv.kernel(grid=1, block=96)
    def body():
        rows = nv.smem((3, 1, 32), nv.f32)
        ring = nv.Ring(3, bytes=rows.bytes)
        warp, lane = nv.warp_id(), nv.lane_id()
        if warp == 2:
            if lane == 0:
                state = ring.producer_state()
                for k in nv.range(16):
                    x_tma.load(rows[state.stage], ring.acquire(state), (k, 0))
                    state = state.next()
        else:
            state = ring.consumer_state().advance(warp)
            for k in nv.range(warp, 16, 2):
                ring.wait(state)  # simulator: early-wait
                out[k, lane] = rows[state.stage][0, lane]  # simulator: undelivered
                nv.sync_warp()
                ring.release(state, lane == 0)
                state = state.advance(2)

    body()
