# RUN: not %python %s 2>&1 | FileCheck %s

"""A kernel that is never launched, for another one takes its name."""

import nvdsl as nv


@nv.jit
def host(x):
    @nv.kernel(grid=1, block=32)
    def kernel():
        x[nv.thread_id.x] = 1.0

    @nv.kernel(grid=1, block=32)
    def kernel():  # noqa: F811
        x[nv.thread_id.x] = 2.0

    kernel()


host.trace(nv.ShapeDtype((32,), nv.f32))

# CHECK: {{.*}}.py:[[# @LINE - 13]]: the kernel `kernel` is made and never launched: its name is another kernel's from {{.*}}.py:[[# @LINE - 9]] on
