# RUN: %python %s | FileCheck %s

"""bulk_commit_group, and bulk_wait_group for all but some groups, or for their reads alone."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.bulk_commit_group()
    # CHECK: nvvm.cp.async.bulk.commit.group (line [[# @LINE - 1]])
    nv.bulk_wait_group()
    # CHECK: nvvm.cp.async.bulk.wait_group 0 (line [[# @LINE - 1]])
    nv.bulk_wait_group(2, read=True)
    # CHECK: nvvm.cp.async.bulk.wait_group 2 {read} (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: cp.async.bulk.commit_group;
# CHECK: cp.async.bulk.wait_group 0;
# CHECK: cp.async.bulk.wait_group.read 2;


@refused()
def negative():
    nv.bulk_wait_group(-1)
    # CHECK: TraceError: bulk_groups.py:[[# @LINE - 1]]: bulk_wait_group(-1)
    # CHECK-NEXT: rule: the number of groups left in flight is a constant, 0 or more (PTX ISA, cp.async.bulk.wait_group)
    # CHECK-NEXT: fix: bulk_wait_group(0) waits for all


@refused()
def traced():
    nv.bulk_wait_group(nv.thread_id.x)
    # CHECK: TraceError: bulk_groups.py:[[# @LINE - 1]]: bulk_wait_group(
