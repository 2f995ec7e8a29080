# RUN: %python %s | FileCheck %s

"""Ordinary stores that TMA or wgmma reads without a proxy fence in between."""

from show import array, refused

import nvdsl as nv
from nvdsl.ops import tma


@refused(array(nv.f32, 64, 64))
@nv.jit
def store(out):
    out_tma = nv.TMA(out, tile=(16, 64))

    @nv.kernel(grid=1, block=64)
    def kernel():
        tile = nv.smem((16, 64), nv.f32)
        for i in nv.range(16):
            tile[i, nv.thread_id.x] = 1.0
        nv.sync_threads()
        if nv.thread_id.x == 0:
            out_tma.store(tile, (0, 0))
            # CHECK: VerifyError: proxy_fence.py:[[# @LINE - 1]]: this TMA store reads shared memory that ordinary stores
            # CHECK-SAME: wrote at line [[# @LINE - 5]], with no proxy fence in between
            # CHECK-NEXT: rule: stores go through the generic proxy, TMA and wgmma read through the async proxy
            # CHECK-NEXT: fix: nv.fence_proxy_async() behind the stores, then nv.sync_threads()
            tma.bulk_commit_group()
            tma.bulk_wait_group(0)

    kernel()


@refused()
def multiply():
    a, b = nv.smem((64, 64), nv.f16, swizzle=128), nv.smem((64, 64), nv.f16, swizzle=128)
    for i in nv.range(64):
        a[i, nv.thread_id.x % 64] = nv.f16(1.0)
    nv.sync_threads()
    acc = nv.accumulator(64, 64)
    acc += a @ b
    # CHECK: VerifyError: proxy_fence.py:[[# @LINE - 1]]: wgmma's operand A reads shared memory that ordinary stores
    # CHECK-SAME: wrote at line [[# @LINE - 5]], with no proxy fence in between
    nv.wgmma_wait(0)
