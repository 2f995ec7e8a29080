# RUN: %python %s | FileCheck %s

"""A slot of a ring that no init reaches."""

from show import array, refused

import nvdsl as nv
from nvdsl.ops import tma


@refused(array(nv.f32, 64))
def kernel(x):
    data = nv.smem((64,), nv.f32)
    full = nv.Mbarriers(4)
    if nv.thread_id.x == 0:
        for i in nv.range(3):
            full[i].init(1)
    nv.sync_threads()
    for k in nv.range(8):
        if nv.thread_id.x == 0:
            full[k % 4].arrive_expect_tx(256)
            # CHECK: VerifyError: mbarrier_not_initialized.py:[[# @LINE - 1]]: mbarrier 3 of the group of 4 is used and never
            # CHECK-SAME: initialized
            # CHECK-NEXT: rule: mbarrier.init comes before any other use
            # CHECK-NEXT: fix: let one thread init every barrier of the group
            tma.bulk_load(data, x, 256, full[k % 4])
        full[k % 4].wait((k // 4) & 1)
