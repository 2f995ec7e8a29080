"""A copy goes to shared memory that is not aligned as TMA needs it."""

import nvdsl as nv

ARRAYS = [((16, 64), "float32"), ((16, 64), "float32")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        nv.smem((16 * 64 + 8,), x.dtype)
        tile = nv.get_dynamic_shared_memory((16, 64), x.dtype.ir, 16)
        full = nv.Mbarriers(1, arrivals=1)[0]
        t = nv.thread_id.x
        if t == 0:
            full.arrive_expect_tx(16 * 64 * 4)
            x_tma.load(tile, full, (0, 0))  # verifier, simulator: illegal-copy
        full.wait(0)
        for i in nv.range(16):
            out[i, t] = tile[i, t]

    body()
