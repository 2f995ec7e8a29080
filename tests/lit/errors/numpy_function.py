# RUN: not %python %s 2>&1 | FileCheck %s

"""A function of NumPy's on a traced value. The traceback has the user's lines, and one of nvdsl's."""

import numpy as np

import nvdsl as nv


@nv.jit
def host(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        x[0] = np.exp(x[1])

    kernel()


host.trace(nv.ShapeDtype((32,), nv.f32))

# CHECK: File "{{.*}}numpy_function.py", line [[# @LINE - 2]], in <module>
# CHECK: NVDSL_TRACEBACK=full shows nvdsl's own lines, too
# CHECK: File "{{.*}}numpy_function.py", line [[# @LINE - 7]], in host
# CHECK-NEXT: kernel()
# CHECK-NEXT: File "{{.*}}numpy_function.py", line [[# @LINE - 11]], in kernel
# CHECK-NEXT: x[0] = np.exp(x[1])
# CHECK: nvdsl.errors.TraceError: {{.*}}numpy_function.py:[[# @LINE - 13]]: np.exp of a traced value
# CHECK-NEXT: rule: the number exists only when the kernel runs
# CHECK-NEXT: fix: write nv.math.exp(x)
