# RUN: not %python %s 2>&1 | FileCheck %s

"""A loop that Python would run without end while it traces."""

import nvdsl as nv


@nv.jit
def host(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        while True:
            x[nv.thread_id.x] = x[nv.thread_id.x] + 1.0

    kernel()


host.trace(nv.ShapeDtype((32,), nv.f32))

# CHECK: nvdsl.errors.TraceError: {{.*}}endless_loop.py:[[# @LINE - 8]]: `while` on a plain true condition, and nothing in the loop leaves it
# CHECK-NEXT: rule: Python runs a loop on a plain condition while it traces
# CHECK-NEXT: fix: write `for i in nv.range(n):`
