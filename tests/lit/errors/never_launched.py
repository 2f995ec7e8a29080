# RUN: not %python %s 2>&1 | FileCheck %s

"""A kernel that is made and never launched."""

import nvdsl as nv


@nv.jit
def host(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        x[nv.thread_id.x] = 1.0


host.trace(nv.ShapeDtype((32,), nv.f32))

# CHECK: nvdsl.errors.TraceError: {{.*}}never_launched.py:[[# @LINE - 7]]: the kernel `kernel` is made and never launched
# CHECK-NEXT: rule: @nv.kernel makes a kernel; a call launches it
# CHECK-NEXT: fix: write `kernel()` after it, in the host function
