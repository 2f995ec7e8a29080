"""A ring's stage that is counted without wrapping: the slot behind the last one is another ring's first."""

import nvdsl as nv

ARRAYS = [((64, 64), "float32"), ((64, 64), "float32")]


@nv.jit
def kernel(x, out):
    x_tma = nv.TMA(x, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def body():
        t = nv.thread_id.x
        slots = nv.smem((2, 16, 64), x.dtype)
        nv.smem((2, 16, 64), x.dtype)
        full = nv.Mbarriers(2, arrivals=1)
        for k in nv.range(out.shape[0] // 16):
            if t == 0:
                full[k % 2].arrive_expect_tx(slots.bytes)
                x_tma.load(slots[k], full[k % 2], (k * 16, 0))  # verifier, simulator: out-of-bounds
            full[k % 2].wait(k // 2 % 2)
            nv.sync_threads()
            for i in nv.range(16):
                out[k * 16 + i, t] = slots[k % 2][i, t]
            nv.sync_threads()

    body()
