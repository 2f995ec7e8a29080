# RUN: %python %s | FileCheck %s

"""Barriers that a part of the block, of a warp, of the cluster, or of a warpgroup reaches."""

from show import refused

import nvdsl as nv


@refused()
def half_of_the_block():
    if nv.warp_id() < 2:
        nv.sync_threads()
        # CHECK: VerifyError: barrier_in_a_branch.py:[[# @LINE - 1]]: the block's barrier waits for 128 threads, and 64 come
        # CHECK-SAME: 0-63; the others are kept out at line [[# @LINE - 3]]
        # CHECK-NEXT: rule: a barrier opens when all its threads have come
        # CHECK-NEXT: fix: call it outside of the `if`, or nv.named_barrier_sync(1, 64) for these threads alone


@refused()
def lanes():
    if nv.lane_id() < 8:
        nv.sync_threads()
        # CHECK: VerifyError: barrier_in_a_branch.py:[[# @LINE - 1]]: a part of a warp reaches this barrier: threads 0-7 of 32
        # CHECK: fix: branch on whole warps


@refused(block=256)
def named():
    if nv.warpgroup_id() == 1:
        nv.named_barrier_sync(1, 256)
        # CHECK: VerifyError: barrier_in_a_branch.py:[[# @LINE - 1]]: named barrier 1 waits for 256 threads, and 128 come
        # CHECK-SAME: 128-255
        # CHECK: fix: pass 128, or let the others sync or arrive at it too


@refused(grid=2, cluster=2)
def cluster():
    if nv.cluster_rank() == 0:
        nv.cluster_sync()
        # CHECK: VerifyError: barrier_in_a_branch.py:[[# @LINE - 1]]: the cluster's barrier waits for all 256 threads of the
        # CHECK-SAME: cluster, and 128 come
        # CHECK: fix: call it outside of the `if`


@refused(block=256)
def warpgroup():
    if nv.thread_id.x < 192:
        nv.wgmma_wait(0)
        # CHECK: VerifyError: barrier_in_a_branch.py:[[# @LINE - 1]]: a part of a warpgroup reaches
        # CHECK-SAME: nvvm.wgmma.wait.group.sync.aligned: threads 128-191
        # CHECK: fix: branch on nv.warpgroup_id()
