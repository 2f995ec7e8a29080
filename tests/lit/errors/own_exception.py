# RUN: not %python %s 2>&1 | FileCheck %s


"""An exception inside a kernel's body surfaces as itself, with the line that raised it."""

import nvdsl as nv


@nv.jit
def saxpy(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        if nv.thread_id.x < 16:
            for _i in nv.range(4):
                {"alpha": 2.0}["beta"]

    kernel()


saxpy.compile(nv.ShapeDtype((64,), nv.f32))

# CHECK: Traceback (most recent call last):
# CHECK: File "{{.*}}own_exception.py", line [[# @LINE - 3]], in <module>
# CHECK: File "{{.*}}own_exception.py", line [[# @LINE - 7]], in saxpy
# CHECK: File "{{.*}}own_exception.py", line [[# @LINE - 10]], in kernel
# CHECK: {{^}}KeyError: 'beta'
