# RUN: %python %s | FileCheck %s

"""wgmma_commit: closes the group of wgmmas."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.wgmma_commit()
    # CHECK: nvvm.wgmma.commit.group.sync.aligned (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.commit_group.sync.aligned;
