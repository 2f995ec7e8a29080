# RUN: not %python %s 2>&1 | FileCheck %s


"""Python that can't be traced: the message says what to write instead."""

import nvdsl as nv


def first_negative(x, n):
    for i in nv.range(n):
        if x[i] < 0.0:
            return i
    return n


@nv.jit
def search(x, n):
    @nv.kernel(grid=1, block=1)
    def kernel():
        x[0] = first_negative(x, n)

    kernel()


search.compile(nv.ShapeDtype((64,), nv.f32), 64)

# The helper's line, though the kernel called it.
# CHECK: nvdsl.errors.TraceError: {{.*}}unsupported_python.py:[[# @LINE - 16]]: `return` inside a `for` over nv.range
# CHECK-NEXT: rule: whether the kernel takes a branch, or another pass, is not known while it is traced
# CHECK-NEXT: fix: assign a variable there, and return that after the statement
