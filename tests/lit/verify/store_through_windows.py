# RUN: %python %s | FileCheck %s

"""A store through a tensor map of windows, which has rows that the array does not have."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f32, 40, 8))
@nv.jit
def stored(x):
    part = nv.TMA(x.windows(16), tile=(1, 16, 8))
    # CHECK: VerifyError: store_through_windows.py:[[# @LINE - 1]]: a TMA store through a tensor map of windows that reach over the array's end

    @nv.kernel(grid=1, block=32)
    def kernel():
        tile = nv.smem((16, 8), x.dtype)
        if nv.thread_id.x == 0:
            part.store(tile, (0, 0, 0))
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()
    # CHECK: fix: make the map of the array itself: windows are for loads
