# RUN: %python %s | FileCheck %s

"""fence_proxy_async: of shared memory by default; the space can be the cluster's, global memory, or all."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.fence_proxy_async()
    # CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>} (line [[# @LINE - 1]])
    nv.fence_proxy_async("shared::cluster")
    # CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cluster>}
    nv.fence_proxy_async("global")
    # CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.global>}
    nv.fence_proxy_async(None)
    # CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}


# CHECK-LABEL: .entry kernel
# CHECK: fence.proxy.async.shared::cta;
# CHECK: fence.proxy.async.shared::cluster;
# CHECK: fence.proxy.async.global;
# CHECK: fence.proxy.async;


@refused()
def unknown_space():
    nv.fence_proxy_async("shared")
    # CHECK: TraceError: fence_proxy_async.py:[[# @LINE - 1]]: fence_proxy_async('shared')
    # CHECK-NEXT: rule: the space is one of ['shared::cta', 'shared::cluster', 'global', None]
