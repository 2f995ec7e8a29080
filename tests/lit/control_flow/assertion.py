# RUN: %python %s | FileCheck %s

"""assert on a traced condition is checked on the device, and names the line; on a Python bool it is Python's."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64), ptx=True)
def kernel(x):
    t = nv.thread_id.x
    assert t < 64, "a block of 64"
    # CHECK: %[[LESS:\w+]] = arith.cmpi slt
    # CHECK: cf.assert %[[LESS]], "{{.*}}assertion.py:[[# @LINE - 2]]: a block of 64"
    x[t] = 1


# CHECK-LABEL: .entry kernel
# CHECK: __assertfail
