# RUN: %python %s | FileCheck %s

"""The cluster's barrier: arrivals and waits take turns."""

from show import refused

import nvdsl as nv


@refused(cluster=2, grid=2)
def arrive_twice():
    nv.cluster_arrive()
    nv.sync_threads()
    nv.cluster_sync()
    # CHECK: VerifyError: cluster_barrier.py:[[# @LINE - 1]]: a thread arrives at the cluster's barrier again, after line
    # CHECK-SAME: [[# @LINE - 4]], with no nv.cluster_wait() in between
    # CHECK-NEXT: rule: a thread arrives once until the barrier completes, and waits once for it
    # CHECK-NEXT: fix: nv.cluster_wait() between the two
