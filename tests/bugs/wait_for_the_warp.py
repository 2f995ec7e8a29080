"""One lane waits for a copy, and all lanes read what it brought."""

import nvdsl as nv

ARRAYS = [((8, 32), "float32"), ((32,), "float32")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(8, 32))

    @nv.kernel(grid=1, block=32)
    def body():
        tile = nv.smem((8, 32), nv.f32)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, 0))
            full.wait(0)
        out[t] = tile[3, t]  # simulator: undelivered

    body()
