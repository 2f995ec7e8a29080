# RUN: %python %s | FileCheck %s

"""Copies onto an mbarrier that expects no bytes, where others of its group do."""

from show import array, refused

import nvdsl as nv
from nvdsl.ops import tma


@refused(array(nv.f32, 64))
def kernel(x):
    data = nv.smem((2, 8, 64), nv.f32)
    full = nv.Mbarriers(2, arrivals=1)
    if nv.thread_id.x == 0:
        full[0].arrive_expect_tx(256)
        tma.bulk_load(data[0].panel(0, (64,)), x, 256, full[0])
        full[1].arrive()
        tma.bulk_load(data[1].panel(0, (64,)), x, 256, full[1])
        # CHECK: VerifyError: copies_without_expect_tx.py:[[# @LINE - 1]]: copies bring 256 (line [[# @LINE - 1]]) to the mbarrier
        # CHECK-SAME: 256 bytes that nothing expects here, as line [[# @LINE - 5]] does
        # CHECK: fix: arrive_expect_tx(256) before the copies
    full[0].wait(0)
    full[1].wait(0)
