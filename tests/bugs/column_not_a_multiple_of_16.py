"""A box that starts at a column which is no multiple of 16 bytes."""

import nvdsl as nv

ARRAYS = [((16, 256), "float16"), ((16, 64), "float16"), ((1,), "int32")]


@nv.jit
def kernel(x, out, starts):
    x_tma = nv.TMA(x, tile=(16, 64), swizzle=128)

    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((16, 64), x.dtype, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, starts[0] * 8 + 193))  # verifier, simulator: illegal-copy
        full.wait(0)
        for i in nv.range(16):
            out[i, t] = tile[i, t]

    body()
