# RUN: %python %s | FileCheck %s

"""Bytes that are read without a wait, and a first wait that returns at once."""

from show import array, refused

import nvdsl as nv
from nvdsl.ops import tma


def load(x, wait):
    data = nv.smem((64,), nv.f32)
    full = nv.Mbarriers(1, arrivals=1)[0]
    if nv.thread_id.x == 0:
        full.arrive_expect_tx(256)
        tma.bulk_load(data, x, 256, full)
    wait(full)
    x[nv.thread_id.x % 64] = data[nv.thread_id.x % 64]


@refused(array(nv.f32, 64))
def no_wait(x):
    load(x, lambda full: None)
    # CHECK: VerifyError: nobody_waits.py:[[# @LINE - 8]]: nothing waits for these bytes
    # CHECK-NEXT: rule: a copy is complete when the phase of its mbarrier is
    # CHECK-NEXT: fix: bar.wait(phase) in all threads that read them


@refused(array(nv.f32, 64))
def other_parity(x):
    load(x, lambda full: full.wait(1))
    # CHECK: VerifyError: nobody_waits.py:[[# @LINE - 1]]: the first wait for the copies at line [[# @LINE - 16]] has parity 1,
    # CHECK-SAME: and returns before they arrive
    # CHECK-NEXT: rule: the first phase of an mbarrier has parity 0
    # CHECK-NEXT: fix: wait(0) first, then 1, 0, ...: (k // stages) & 1
