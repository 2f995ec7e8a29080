# RUN: not %python %s 2>&1 | FileCheck %s

"""A helper that calls itself on a traced value."""

import nvdsl as nv


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


@nv.jit
def host(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        x[0] = factorial(x[1])

    kernel()


host.trace(nv.ShapeDtype((32,), nv.i32))

# CHECK: nvdsl.errors.TraceError: {{.*}}endless_recursion.py:[[# @LINE - 14]]: `factorial{{.*}}` calls itself without end
# CHECK-NEXT: rule: a function that is called is traced where it is called
# CHECK-NEXT: fix: write a loop
