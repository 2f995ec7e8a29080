# RUN: not %python %s 2>&1 | FileCheck %s

"""A traced value that outlives the trace that made it."""

import nvdsl as nv

kept = []


@nv.jit
def host(x):
    kept.append(x)

    @nv.kernel(grid=1, block=32)
    def kernel():
        kept[0][0] = 1.0

    kernel()


X = nv.ShapeDtype((64,), nv.f32)
host.trace(X)
print("the first trace may use it")
host.trace(X)

# CHECK: the first trace may use it
# CHECK: nvdsl.errors.TraceError: {{.*}}kept_value.py:[[# @LINE - 11]]: a traced value is used in a trace that did not make it
# CHECK-NEXT: rule: a traced value lives as long as the trace of the call that made it
# CHECK-NEXT: fix: don't keep traced values in globals or objects between calls
