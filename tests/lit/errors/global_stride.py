# RUN: not %python %s 2>&1 | FileCheck %s


"""A row of an array that is no multiple of 16 bytes, which no tensor map describes."""

import numpy as np

import nvdsl as nv


@nv.jit
def gemm(a):
    nv.TMA(a, tile=(64, 64), swizzle=128)


gemm(np.zeros((128, 100), np.float16))

# CHECK: nvdsl.errors.VerifyError: {{.*}}global_stride.py:[[# @LINE - 5]]: this tensor map is not possible: axis 0 has a stride of 200 bytes (100 elements of f16): it must be a multiple of 16 bytes
# CHECK-NEXT: rule: CUDA driver API, cuTensorMapEncodeTiled
# CHECK-NEXT: fix: let it be 104 elements: a part x[..., :100] of a wider array; or use nv.copy
