"""An mbarrier's bytes are announced after the arrivals of their phase."""

import nvdsl as nv

ARRAYS = [((16, 64), "float32"), ((16, 64), "float32")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(8, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        tiles = nv.smem((2, 8, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(tiles[0].bytes)
            x_tma.load(tiles[0], full, (0, 0))
            full.expect_tx(tiles[1].bytes)  # simulator: late-expect
            x_tma.load(tiles[1], full, (8, 0))
        full.wait(0)
        for i in nv.range(8):
            out[i, t] = tiles[0][i, t]
            out[8 + i, t] = tiles[1][i, t]  # simulator: undelivered

    body()
