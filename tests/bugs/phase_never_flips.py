"""The consumer waits for the same parity every time round the ring."""

import nvdsl as nv

ARRAYS = [((80, 64), "float32"), ((1, 64), "float32")]


@nv.jit
def kernel(x, out, *, stages=2, steps=5):
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        tiles = nv.smem((stages, 16, 64), x.dtype)
        full, empty = nv.Mbarriers(stages, arrivals=1), nv.Mbarriers(stages, arrivals=1)
        t = nv.thread_id.x
        if nv.warp_id() == 0:
            for k in nv.range(steps):
                slot, turn = k % stages, k // stages
                empty[slot].wait((turn & 1) ^ 1)  # simulator: deadlock
                if t == 0:
                    full[slot].arrive_expect_tx(tiles.bytes)
                    x_tma.load(tiles[slot], full[slot], (k * 16, 0))
        else:
            total = nv.f32(0.0)
            for k in nv.range(steps):
                slot, turn = k % stages, k // stages
                full[slot].wait(0)
                total += tiles[slot][0, t]  # simulator: undelivered
                nv.sync_warp()
                empty[slot].arrive(predicate=t == 32)
            out[0, t] = total

    body()
