# RUN: %python %s | FileCheck %s
# ruff: noqa: F821

"""A promise of an extent is what the verifier knows of its lowest bits; of an extent without one it knows nothing."""

from show import array, refused, show

import nvdsl as nv


def load(x, col):
    x_map = nv.TMA(x, tile=(8, 64), swizzle=128)

    @nv.kernel(grid=1, block=32)
    def kernel():
        tile, full = nv.smem((8, 64), nv.f16, swizzle=128), nv.Mbarriers(1, arrivals=1)
        if nv.thread_id.x == 0:
            full[0].arrive_expect_tx(tile.bytes)
            x_map.load(tile, full[0], (0, col))
        full[0].wait(0)

    kernel()


@refused(array(nv.f16, "m", "k"))
@nv.jit
def past_a_multiple(x: nv.Array["m", "k % 8"]):
    load(x, x.shape[1] - 4)
    # CHECK: VerifyError: promises.py:19: the innermost coordinate of this TMA load is always 4 f16 past a multiple of 8


# CHECK-LABEL: func.func @nothing_is_known
@show(array(nv.f16, "m", "k"))
@nv.jit
def nothing_is_known(x: nv.Array["m", "k"]):
    load(x, x.shape[1] - 4)


# CHECK-LABEL: func.func @whole_tiles
@show(array(nv.f16, "m", "k"))
@nv.jit
def whole_tiles(x: nv.Array["m", "k % 8"]):
    load(x, x.shape[1] // 64 * 64 - x.shape[1])
