# RUN: not %python %s 2>&1 | FileCheck %s


"""A traced value where Python needs a plain one."""

import nvdsl as nv


@nv.jit
def scale(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        factors = [1.0, 2.0, 4.0]
        x[nv.thread_id.x] = factors[nv.thread_id.x]

    kernel()


scale.compile(nv.ShapeDtype((64,), nv.f32))

# CHECK: nvdsl.errors.TraceError: {{.*}}traced_value.py:[[# @LINE - 7]]: a traced value used as a Python int is not known
# CHECK-NEXT: rule: the number exists only when the kernel runs
# CHECK-NEXT: fix: write nv.range(n) for a traced loop, nv.vector(numbers)[i] for an element of a list; range() needs a Python int
