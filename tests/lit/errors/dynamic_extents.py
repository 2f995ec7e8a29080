# RUN: %python %s | FileCheck %s
# ruff: noqa: F821

"""What a call with named extents is refused for, and where Python needs a number."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f16, 128, 64), array(nv.f16, 72, 64))
@nv.jit
def product(a: nv.Array["m", "k % 8"], b: nv.Array["k % 8", "n"]):
    pass
    # CHECK: ArgumentError: {{.*}}: product: k is 64 in a, of shape (128, 64), and 72 in b, of shape (72, 64) (axis 0)
    # CHECK-NEXT: rule: axes of one name have one extent
    # CHECK-NEXT: fix: pass arrays that agree in k, or give the axes different names


@refused(array(nv.f16, 128, 60))
@nv.jit
def promise(a: nv.Array["m", "k % 8"]):
    pass
    # CHECK: ArgumentError: {{.*}}: promise: k is 60 in a, of shape (128, 60) (axis 1)
    # CHECK-NEXT: rule: k is a multiple of 8, as the annotation promises: the compiler relies on it
    # CHECK-NEXT: fix: pad the axis to 64, or drop `% 8` if the kernel can do without it


@refused(array(nv.f16, 128, 60))
@nv.jit
def number(a: nv.Array[64, ...]):
    pass
    # CHECK: ArgumentError: {{.*}}: number: a has shape (128, 60): axis 0 is 128, and annotated 64


@refused(array(nv.f16, 128, 64))
@nv.jit
def unrolled(a: nv.Array["m", "k"]):
    for _ in range(a.shape[0]):
        pass
    # CHECK: TraceError: dynamic_extents.py:[[# @LINE - 2]]: a traced value used as a Python int is not known
    # CHECK-NEXT: rule: the number exists only when the kernel runs
    # CHECK-NEXT: fix: {{.*}}the extent `m` is dynamic: to make it a constant of the compiled kernel, annotate the axis `...` or with a number


@refused(array(nv.f16, 128, 64))
@nv.jit
def box(a: nv.Array["m", "k"]):
    nv.TMA(a, tile=(a.shape[0], 64))
    # CHECK: TraceError: dynamic_extents.py:[[# @LINE - 1]]: nv.TMA(Array(shape=(m, k), dtype=f16), tile=(<m>, 64))
    # CHECK: fix: {{.*}}the extent `m` is dynamic


@refused(array(nv.f16, 128, 64))
@nv.jit
def large_box(a: nv.Array["m", "k"]):
    nv.TMA(a, tile=(512, 64))
    # CHECK: VerifyError: dynamic_extents.py:[[# @LINE - 1]]: this tensor map is not possible: axis 0 of the box has 512 elements: 1 to 256 are allowed


@refused(array(nv.f16, 128, 64))
@nv.jit
def misaligned(a: nv.Array["m", "k % 8"]):
    @nv.kernel(grid=1, block=32)
    def kernel():
        a.vector((nv.thread_id.x, 4), 8)
        # CHECK: TraceError: dynamic_extents.py:[[# @LINE - 1]]: a vector access of 8 x f16 (16 bytes) at byte 8: no multiple of 16

    kernel()
