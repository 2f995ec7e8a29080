"""Ordinary stores to shared memory, then a TMA store of it: with the fence between the proxies, and without."""

import numpy as np

import nvdsl as nv


@nv.jit
def fill(y, *, fence=True):
    y_tma = nv.TMA(y, tile=(8, 32))

    @nv.kernel(grid=1, block=32)
    def kernel():
        tile = nv.smem((8, 32), y.dtype)
        for row in range(8):
            tile[row, nv.lane_id()] = 1.0  # the generic proxy writes
        if fence:
            nv.fence_proxy_async()  # each thread orders its own stores
        nv.sync_threads()  # all threads have done so
        if nv.thread_id.x == 0:
            y_tma.store(tile, (0, 0))  # the async proxy reads
            nv.bulk_commit_group()
            nv.bulk_wait_group(0)

    kernel()


y = np.zeros((8, 32), np.float32)
fill(y)
print("with the fence:", y.sum(), "ones stored")
try:
    fill(y, fence=False)
except nv.VerifyError as error:
    print("without:", error.message)
    print("  fix: ", error.fix)
