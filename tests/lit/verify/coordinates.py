# RUN: %python %s | FileCheck %s

"""Coordinates at which there can be no TMA copy."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f16, 64, 1024))
@nv.jit
def load(x):
    x_tma = nv.TMA(x, tile=(64, 64), swizzle=128)

    @nv.kernel(grid=4, block=32)
    def kernel():
        tile = nv.smem((64, 64), nv.f16, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        if nv.thread_id.x == 0:
            full.arrive_expect_tx(tile.bytes)
            x_tma.load(tile, full, (0, 961))
            # CHECK: VerifyError: coordinates.py:[[# @LINE - 1]]: the innermost coordinate of this TMA load is 961, 1,922
            # CHECK-SAME: bytes of f16
            # CHECK-NEXT: rule: it is a multiple of 16 bytes, here of 8 elements, else it is an illegal instruction
            # CHECK-NEXT: fix: start the box at the multiple of 8 before it
        full.wait(0)

    kernel()


@refused(array(nv.f32, 64, 1024))
@nv.jit
def store(x):
    x_tma = nv.TMA(x, tile=(64, 32), swizzle=128)

    @nv.kernel(grid=4, block=32)
    def kernel():
        tile = nv.smem((64, 32), nv.f32, swizzle=128)
        if nv.thread_id.x == 0:
            x_tma.store(tile, (0, nv.block_id.x * 32 + 2))
            # CHECK: VerifyError: coordinates.py:[[# @LINE - 1]]: the innermost coordinate of this TMA store is always 2 f32
            # CHECK-SAME: past a multiple of 4

    kernel()


@refused(array(nv.f32, 64, 1024))
@nv.jit
def store_before(x):
    x_tma = nv.TMA(x, tile=(64, 32), swizzle=128)

    @nv.kernel(grid=4, block=32)
    def kernel():
        tile = nv.smem((64, 32), nv.f32, swizzle=128)
        if nv.thread_id.x == 0:
            x_tma.store(tile, (-1, 0))
            # CHECK: VerifyError: coordinates.py:[[# @LINE - 1]]: coordinate 1 of this TMA store, the innermost being 0, is -1
            # CHECK-NEXT: rule: what goes to global memory has no negative coordinate

    kernel()
