"""The kernel ends while a copy into its shared memory is under way."""

import nvdsl as nv

ARRAYS = [((16, 64), "float32"), ((16, 64), "float32")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((16, 64), x.dtype)
        other = nv.smem((16, 64), x.dtype)
        bars = nv.Mbarriers(2, arrivals=1)
        t = nv.thread_id.x
        if t == 0:
            bars[0].arrive_expect_tx(tile.bytes)
            x_tma.load(tile, bars[0], (0, 0))
            bars[1].arrive_expect_tx(tile.bytes)
            x_tma.load(other, bars[1], (0, 0))  # simulator: exit-in-flight
        bars[0].wait(0)
        for i in nv.range(16):
            out[i, t] = tile[i, t]

    body()
