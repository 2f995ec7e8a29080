# RUN: %python %s | FileCheck %s

"""A block's collective that a part of the block reaches."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f32, 128), compile=True)
def half(x):
    t = nv.thread_id.x
    if t < 64:
        x[t] = nv.block.sum(x[t])
        # CHECK: VerifyError: block_in_a_branch.py:[[# @LINE - 1]]: a collective of 128 threads, and 64 come
        # CHECK-SAME: the others are kept out at line [[# @LINE - 3]]


@refused(array(nv.f32, 128), compile=True, grid=2, cluster=2)
def one_block_of_a_cluster(x):
    t = nv.thread_id.x
    if nv.cluster_rank() == 0:
        x[t] = nv.cluster.sum(x[t])
        # CHECK: VerifyError: block_in_a_branch.py:[[# @LINE - 1]]: the cluster's barrier waits for all 256 threads
