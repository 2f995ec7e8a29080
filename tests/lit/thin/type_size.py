# RUN: %python %s | FileCheck %s

"""get_type_size: bytes of a memref, a float or an integer."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.thin import NVDSL, T, get_type_size


# CHECK-LABEL: func.func @host
@show(array(nv.f16, 128, 64))
@NVDSL.mlir_func
def host(a):
    assert get_type_size(a.type) == 128 * 64 * 2
    assert [get_type_size(t) for t in (T.f32(), T.f16(), T.i8(), T.bool(), T.index())] == [4, 2, 1, 1, 8]


@refused(array(nv.f16, 128, 64))
@NVDSL.mlir_func
def other(a):
    get_type_size(T.memref(4, T.f32()).layout)
    # CHECK: TraceError: type_size.py:[[# @LINE - 1]]: get_type_size(
    # CHECK-NEXT: rule: a size is known for memrefs with static shape, floats and integers
    # CHECK-NEXT: fix: pass a.type or a.type.element_type
