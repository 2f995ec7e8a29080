# RUN: %python %s | FileCheck %s

"""elect: one lane of a converged warp, as a condition that `if` takes."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    if nv.elect():
        nv.nanosleep(100)
    # CHECK: %[[CHOSEN:\w+]] = nvvm.elect.sync -> i1 (line [[# @LINE - 2]])
    # CHECK: scf.if %[[CHOSEN]] {


# CHECK-LABEL: .entry kernel
# CHECK: elect.sync
