# RUN: %python %s | FileCheck %s

"""A cp.async that nothing waits for, or that is in no group when the wait comes."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f16, 1024))
def no_wait(x):
    nv.cp_async(nv.smem((1024,), nv.f16), nv.thread_id.x * 8, x, nv.thread_id.x * 8, 8)
    # CHECK: VerifyError: nobody_waits_for_cp_async.py:[[# @LINE - 1]]: nothing waits for this cp.async
    # CHECK: fix: nv.cp_async_commit() after the copies, nv.cp_async_wait(0) and a barrier before the bytes are read
    nv.cp_async_commit()


@refused(array(nv.f16, 1024))
def no_group(x):
    nv.cp_async(nv.smem((1024,), nv.f16), nv.thread_id.x * 8, x, nv.thread_id.x * 8, 8)
    nv.cp_async_wait(0)
    # CHECK: VerifyError: nobody_waits_for_cp_async.py:[[# @LINE - 1]]: this wait is for groups of cp.async, and the copy at nobody_waits_for_cp_async.py:[[# @LINE - 2]] is in none
    # CHECK-NEXT: rule: cp.async.wait_group waits for groups that were committed
