# RUN: %python %s | FileCheck %s

"""sync_threads: a barrier of the whole block."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.sync_threads()
    # CHECK: gpu.barrier (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: bar.sync 0;


@refused()
@nv.jit
def on_the_host():
    nv.sync_threads()
    # CHECK: TraceError: sync_threads.py:[[# @LINE - 1]]: sync_threads was used outside of a kernel
