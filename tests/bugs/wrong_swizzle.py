"""wgmma reads a tile with another swizzle than TMA wrote it with."""

import nvdsl as nv
from nvdsl.lang.tile import Tile
from nvdsl.layout import TileLayout

ARRAYS = [((64, 64), "float16"), ((64, 64), "float16"), ((64, 64), "float32")]


@nv.jit
def kernel(a, b, d):
    a_tma, b_tma = nv.TMA(a, tile=(64, 64), swizzle=128), nv.TMA(b, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=1, block=128)
    def body():
        A, B = nv.smem((64, 64), a.dtype, swizzle=128), nv.smem((64, 64), b.dtype, swizzle=128)
        full = nv.Mbarriers(2, arrivals=1)
        t = nv.thread_id.x
        if t == 0:
            full[0].arrive_expect_tx(A.bytes + B.bytes)
            a_tma.load(A, full[0], (0, 0))
            b_tma.load(B, full[0], (0, 0))
        full[0].wait(0)
        acc = nv.accumulator(64, 64, nv.f32)
        acc += Tile(TileLayout.of(64, 64, 2, 64), nv.f16, A.offset) @ B  # verifier, simulator: layout
        nv.wgmma_wait(0)
        acc.store(d, (0, 0))

    body()
