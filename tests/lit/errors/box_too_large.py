# RUN: not %python %s 2>&1 | FileCheck %s


"""A TMA box of more than 256 elements along an axis, as its user sees it."""

import numpy as np

import nvdsl as nv


@nv.jit
def gemm(a):
    nv.TMA(a, tile=(512, 64), swizzle=128)


gemm(np.zeros((1024, 64), np.float16))

# The user's line is the last one of the traceback, and the message's.
# CHECK: File "{{.*}}box_too_large.py", line [[# @LINE - 3]], in <module>
# CHECK: nvdsl.errors.VerifyError: {{.*}}box_too_large.py:[[# @LINE - 7]]: this tensor map is not possible: axis 0 of the box has 512 elements: 1 to 256 are allowed
# CHECK-NEXT: rule: CUDA driver API, cuTensorMapEncodeTiled
# CHECK-NEXT: fix: take at most 256 along axis 0, and a copy for each part
