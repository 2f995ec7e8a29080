"""An element of a swizzled tile is read where it would lie without the swizzle."""

import nvdsl as nv

ARRAYS = [((64, 64), "float16"), ((64, 64), "float16")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        tile = nv.smem((64, 64), x.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, 0))
        full.wait(0)
        rows = tile.panel(0)
        for r in nv.range(t // 64, 64, 2):
            out[r, t % 64] = rows[r, t % 64]  # simulator: layout

    body()
