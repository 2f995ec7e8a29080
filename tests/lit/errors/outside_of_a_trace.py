# RUN: %python %s | FileCheck %s

"""Traced values exist only while a decorated function is traced."""

import nvdsl as nv


def refused(call):
    try:
        call()
    except nv.TraceError as error:
        print(error)
    else:
        raise SystemExit("not refused")


refused(lambda: nv.f32(1.0))
# CHECK: {{.*}}outside_of_a_trace.py:[[# @LINE - 1]]: no function is being traced that could hold the constant 1.0
# CHECK-NEXT: rule: traced values exist inside of a decorated host function or kernel
# CHECK-NEXT: fix: keep a Python number outside, and convert it inside
refused(lambda: nv.thread_id.x)
# CHECK: {{.*}}outside_of_a_trace.py:[[# @LINE - 1]]: a thread or block id was used outside of a kernel
refused(lambda: nv.smem((64, 64), nv.f16))
# CHECK: {{.*}}outside_of_a_trace.py:[[# @LINE - 1]]: nv.smem was used outside of a kernel
refused(lambda: nv.kernel(grid=1, block=32)(lambda: None)())
# CHECK: {{.*}}outside_of_a_trace.py:[[# @LINE - 1]]: kernel `<lambda>` is launched outside of a host function
