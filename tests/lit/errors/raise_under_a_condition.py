# RUN: not %python %s 2>&1 | FileCheck %s

"""An exception under a traced condition."""

import nvdsl as nv


@nv.jit
def host(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        if x[0] < 0.0:
            raise ValueError("negative")

    kernel()


host.trace(nv.ShapeDtype((32,), nv.f32))

# CHECK: nvdsl.errors.TraceError: {{.*}}raise_under_a_condition.py:[[# @LINE - 7]]: `raise` inside an `if` on a traced condition
# CHECK-NEXT: rule: whether the kernel takes a branch
# CHECK-NEXT: fix: write `assert condition
