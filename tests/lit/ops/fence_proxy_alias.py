# RUN: %python %s | FileCheck %s

"""fence_proxy_alias: fence.proxy.alias."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.fence_proxy_alias()
    # CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<alias>} (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: fence.proxy.alias;
