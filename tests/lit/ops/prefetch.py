# RUN: %python %s | FileCheck %s

"""memory.prefetch, memory.bulk_prefetch: a cache line, or as many bytes, into L2, nothing into registers."""

from show import array, show

import nvdsl as nv
from nvdsl.ops import memory


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 8, 1024), ptx=True)
@nv.jit
def host(x):
    @nv.kernel(grid=1, block=64)
    def kernel():
        memory.prefetch(x, (3, nv.thread_id.x * 16))
        # CHECK: nvvm.prefetch level = L2, %{{.*}} (line [[# @LINE - 1]])
        if nv.thread_id.x == 0:
            memory.bulk_prefetch(x, (nv.block_id.x, 8), 2032)
            # CHECK: nvvm.cp.async.bulk.prefetch %{{.*}}, %{{.*}} (line [[# @LINE - 1]])

    kernel()


# CHECK-LABEL: .entry kernel
# CHECK-NOT: ld.global
# CHECK: prefetch.global.L2 [%rd{{[0-9]+}}+6144];
# CHECK: cp.async.bulk.prefetch.L2.global [%rd{{[0-9]+}}], {{%r[0-9]+|2032}};
