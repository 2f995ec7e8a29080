# RUN: not %python %s 2>&1 | FileCheck %s


"""A shape that a kernel's tiles don't divide, stated by the host function; every extent that is wrong is named."""

import numpy as np

import nvdsl as nv


@nv.jit
def gemm(a, b):
    (M, K), (_, N) = a.shape, b.shape
    nv.require(K == b.shape[0], f"a is {M} x {K}, b is {b.shape[0]} x {N}", rule="(M, K) @ (K, N)")
    nv.require_multiples(M=(M, 128), N=(N, 256))


gemm.compile(nv.ShapeDtype((128, 64), nv.f16), nv.ShapeDtype((64, 512), nv.f16))
try:
    gemm.compile(nv.ShapeDtype((128, 64), nv.f16), nv.ShapeDtype((32, 512), nv.f16))
except nv.ArgumentError as error:
    print(error)
gemm(np.zeros((200, 64), np.float16), np.zeros((64, 300), np.float16))

# CHECK: {{.*}}indivisible_shape.py:[[# @LINE - 11]]: a is 128 x 64, b is 32 x 512
# CHECK-NEXT: rule: (M, K) @ (K, N)
# CHECK: nvdsl.errors.ArgumentError: {{.*}}indivisible_shape.py:[[# @LINE - 12]]: M = 200 is not a multiple of 128; N = 300 is not a multiple of 256
# CHECK-NEXT: rule: this kernel works on whole tiles
# CHECK-NEXT: fix: pad the arrays to M = 256, N = 512, or choose tiles that divide them
