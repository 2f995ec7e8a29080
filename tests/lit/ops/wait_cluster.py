# RUN: %python %s | FileCheck %s

"""wait(scope="cluster"): the wait acquires what other blocks of the cluster have written."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    barrier = nv.Mbarriers(1)[0]
    barrier.wait(1, scope="cluster")
    # CHECK: nvgpu.mbarrier.try_wait.parity {{.*}} {nvdsl.acquire_cluster}


# CHECK-LABEL: .entry kernel
# CHECK: WAIT:
# CHECK-NEXT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%r{{.*}}], {{.*}}, %r{{.*}};
# CHECK-NEXT: @complete bra DONE;
# CHECK-NEXT: bra WAIT;


@refused()
def no_scope():
    nv.Mbarriers(1)[0].wait(0, scope="gpu")
    # CHECK: TraceError: wait_cluster.py:[[# @LINE - 1]]: a wait with scope='gpu'
    # CHECK-NEXT: rule: a wait acquires at the scope of the block or of its cluster (PTX ISA, mbarrier.try_wait, .scope)
    # CHECK-NEXT: fix: scope="cta", or scope="cluster" where another block of the cluster has written the data
