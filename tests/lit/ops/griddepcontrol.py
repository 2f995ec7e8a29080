# RUN: %python %s | FileCheck %s

"""griddep_wait and griddep_launch_dependents: griddepcontrol."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.griddep_wait()
    # CHECK: nvvm.griddepcontrol wait (line [[# @LINE - 1]])
    nv.griddep_launch_dependents()
    # CHECK: nvvm.griddepcontrol launch_dependents (line [[# @LINE - 1]])


# CHECK-LABEL: .entry kernel
# CHECK: griddepcontrol.wait;
# CHECK: griddepcontrol.launch_dependents;
