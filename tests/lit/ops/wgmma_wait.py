# RUN: %python %s | FileCheck %s

"""wgmma_wait: until at most so many groups, 0 to 7, are in flight."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.wgmma_wait()
    # CHECK: nvvm.wgmma.wait.group.sync.aligned 0 (line [[# @LINE - 1]])
    nv.wgmma_wait(7)
    # CHECK: nvvm.wgmma.wait.group.sync.aligned 7 (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.wait_group.sync.aligned 0;
# CHECK: wgmma.wait_group.sync.aligned 7;


@refused()
def too_many():
    nv.wgmma_wait(8)
    # CHECK: TraceError: wgmma_wait.py:[[# @LINE - 1]]: wgmma_wait(8)
    # CHECK-NEXT: rule: the number of groups left in flight is a constant from 0 to 7 (PTX ISA, wgmma.wait_group)
    # CHECK-NEXT: fix: wgmma_wait(0) waits for all, wgmma_wait(1) leaves the newest in flight


@refused()
def traced():
    nv.wgmma_wait(nv.thread_id.x)
    # CHECK: TraceError: wgmma_wait.py:[[# @LINE - 1]]: wgmma_wait(
