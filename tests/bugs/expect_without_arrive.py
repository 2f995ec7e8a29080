"""expect_tx announces bytes, but nobody arrives."""

import nvdsl as nv

ARRAYS = [((16, 64), "float32"), ((16, 64), "float32")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((16, 64), x.dtype)
        full = nv.Mbarriers(1, arrivals=1)[0]  # verifier
        t = nv.thread_id.x
        if t == 0:
            full.expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, 0))
        full.wait(0)  # simulator: deadlock
        for i in nv.range(16):
            out[i, t] = tile[i, t]

    body()
