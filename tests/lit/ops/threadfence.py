# RUN: %python %s | FileCheck %s

"""threadfence: membar of the device by default, of the block or of the system on request."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.threadfence()
    # CHECK: nvvm.memory.barrier <gpu> (line [[# @LINE - 1]])
    nv.threadfence("cta")
    # CHECK: nvvm.memory.barrier <cta>
    nv.threadfence("sys")
    # CHECK: nvvm.memory.barrier <sys>


# CHECK-LABEL: .entry kernel
# CHECK: membar.gl;
# CHECK: membar.cta;
# CHECK: membar.sys;


@refused()
def unknown_scope():
    nv.threadfence("block")
    # CHECK: TraceError: threadfence.py:[[# @LINE - 1]]: threadfence('block')
    # CHECK-NEXT: rule: the scope is one of ['cta', 'gpu', 'sys']
