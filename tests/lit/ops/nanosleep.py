# RUN: %python %s | FileCheck %s

"""nanosleep: for a constant or a traced number of nanoseconds."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.nanosleep(100)
    # CHECK: %[[TIME:\w+]] = arith.constant 100 : i32
    # CHECK: nvvm.nanosleep %[[TIME]] (line [[# @LINE - 2]])
    nv.nanosleep(nv.thread_id.x)
    # CHECK: %[[T:\w+]] = arith.index_cast %thread_id_x
    # CHECK: nvvm.nanosleep %[[T]]


# CHECK-LABEL: .entry kernel
# CHECK: nanosleep.u32 100;
# CHECK: nanosleep.u32 %r


@refused()
def no_integer():
    nv.nanosleep(1e6)
    # CHECK: TraceError: nanosleep.py:[[# @LINE - 1]]: 1000000.0 where an integer belongs
