# RUN: %python %s | FileCheck %s

"""assert on a traced condition names the line; with traced values in its message, these are computed where it fails.
In PTX it is only in debug mode. On a Python bool it is Python's."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 64), ptx=True)
def kernel(x):
    t = nv.thread_id.x
    assert t < 64, "a block of 64"
    # CHECK: %[[LESS:\w+]] = arith.cmpi slt
    # CHECK: cf.assert %[[LESS]], "{{.*}}assertion.py:[[# @LINE - 2]]: a block of 64"
    assert t < 32, f"{t} of {x[t]}"
    # CHECK: scf.if
    # CHECK: memref.load
    # CHECK-NEXT: gpu.printf "{{.*}}assertion.py:[[# @LINE - 3]]: %d of %d" {nvdsl.assert}
    x[t] = 1


# CHECK-LABEL: .entry kernel
# CHECK-NOT: ld.global
# CHECK-NOT: printf
# CHECK: st.global
