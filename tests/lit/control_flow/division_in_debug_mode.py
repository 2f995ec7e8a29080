# RUN: env NVDSL_DEBUG=1 %python %s | FileCheck %s
# RUN: env NVDSL_DEBUG=0 %python %s | FileCheck %s --check-prefix=PLAIN

"""Debug mode stops a kernel at a division by 0 and at a loop with a step of 0. What is known is not looked at."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: .entry kernel
# CHECK: trap;
# CHECK: div.s32
# CHECK: trap;
# CHECK-NOT: trap;
# PLAIN-LABEL: .entry kernel
# PLAIN-NOT: trap;
@show(array(nv.i32, 64), array(nv.i32, 2), ptx=True)
def kernel(x, y):
    t = nv.thread_id.x
    total = t % 7 + y[0]
    total += nv.i32(t) // y[0]
    for _ in nv.range(0, 64, y[1]):
        total += 1
    x[0] = total
