# RUN: %python %s | FileCheck %s

"""What cuTensorMapEncodeTiled refuses is refused when the host function is traced, every broken rule at once."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f16, 1024, 64))
@nv.jit
def box_over_256(a):
    nv.TMA(a, tile=(512, 64), swizzle=128)
    # CHECK: VerifyError: limits.py:[[# @LINE - 1]]: this tensor map is not possible: axis 0 of the box has 512 elements: 1 to 256 are allowed
    # CHECK-NEXT: rule: CUDA driver API, cuTensorMapEncodeTiled; PTX ISA, Tensors
    # CHECK-NEXT: fix: take at most 256 along axis 0, and a copy for each part


@refused(array(nv.f16, 64, 64))
@nv.jit
def empty_box(a):
    nv.TMA(a, tile=(0, 64))
    # CHECK: VerifyError: limits.py:[[# @LINE - 1]]: this tensor map is not possible: axis 0 of the box has 0 elements


@refused(array(nv.f16, 64, 100))
@nv.jit
def stride_no_multiple_of_16_bytes(a):
    nv.TMA(a, tile=(64, 64), swizzle=128)
    # CHECK: VerifyError: limits.py:[[# @LINE - 1]]: this tensor map is not possible: axis 0 has a stride of 200 bytes (100 elements of f16): it must be a multiple of 16 bytes


@refused(array(nv.f16, 64, 64, strides=(1, 64)))
@nv.jit
def rows_not_contiguous(a):
    nv.TMA(a, tile=(64, 64), swizzle=128)
    # CHECK: VerifyError: limits.py:[[# @LINE - 1]]: this tensor map is not possible: axis 1 (the innermost) has a stride of 64 elements: TMA needs it contiguous, stride 1; axis 0 has a stride of 2 bytes


@refused(array(nv.f16, 64, 64))
@nv.jit
def row_no_multiple_of_16_bytes(a):
    nv.TMA(a, tile=(64, 4))
    # CHECK: VerifyError: limits.py:[[# @LINE - 1]]: this tensor map is not possible: the box row is 8 bytes (4 elements of f16): it must be a multiple of 16 bytes


@refused(array(nv.f16, 2, 2, 2, 2, 2, 64))
@nv.jit
def six_axes(a):
    nv.TMA(a, tile=(1, 1, 1, 1, 1, 64))
    # CHECK: VerifyError: limits.py:[[# @LINE - 1]]: this tensor map is not possible: rank 6: 1 to 5 dimensions are possible


@refused(array(nv.f32, 1024, 65))
@nv.jit
def three_rules_at_once(a):
    nv.TMA(a, tile=(300, 7))
    # CHECK: VerifyError: limits.py:[[# @LINE - 1]]: {{.*}}axis 0 has a stride of 260 bytes
    # CHECK-SAME: axis 0 of the box has 300 elements
    # CHECK-SAME: the box row is 28 bytes
