# RUN: not %python %s 2>&1 | FileCheck %s


"""A row of a box that is wider than its swizzle. nv.TMA splits such a tile; a tensor map made by hand can't."""

import numpy as np

import nvdsl as nv
from nvdsl.mlir.dialects import nvgpu
from nvdsl.ops.tma import TMA


@nv.jit
def gemm(a):
    tma = TMA((64, 128), a.type, nvgpu.TensorMapSwizzleKind.SWIZZLE_128B)
    tma.create_descriptor(a)


gemm(np.zeros((64, 128), np.float16))

# CHECK: nvdsl.errors.VerifyError: {{.*}}box_wider_than_swizzle.py:[[# @LINE - 5]]: this tensor map is not possible: the box row is 256 bytes (128 elements of f16): swizzle_128b allows at most 128 bytes (64 elements)
