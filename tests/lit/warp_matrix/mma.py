# RUN: %python %s | FileCheck %s

"""A warp's accumulator: one mma.sync for each 16 rows, 8 columns and step of K; carried by loops in its registers."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 32, 16), block=32)
def carried(d):
    A, B = nv.smem((32, 64), nv.f16, swizzle=128), nv.smem((16, 64), nv.f16, swizzle=128)
    acc = nv.warp_accumulator(32, 16)
    for k in nv.range(0, 64, 16):
        # CHECK: scf.for {{.*}} iter_args({{(%\w+ = %\w+,? ?)+}}) -> (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)
        acc += nv.load_a(A, (0, k), (32, 16)) @ nv.load_b(B.T, (k, 0), (16, 16))
        # CHECK-COUNT-3: nvvm.ldmatrix
        # CHECK-COUNT-4: nvvm.mma.sync {{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
    acc.store(d, (0, 0))


# CHECK-LABEL: gpu.launch
@show(array(nv.f64, 8, 8), block=32)
def of_tiles(d):
    acc = nv.warp_accumulator(8, 8, nv.f64)
    acc += nv.smem((8, 4), nv.f64) @ nv.smem((8, 4), nv.f64).T
    # CHECK: nvvm.mma.sync {{.*}}shape = #nvvm.shape<m = 8, n = 8, k = 4>
    acc.store(d, (0, 0))


@refused(block=32)
def of_two_types():
    acc = nv.warp_accumulator(16, 8)
    acc += nv.smem((16, 16), nv.f16) @ nv.smem((8, 16), nv.bf16).T
    # CHECK: TraceError: mma.py:[[# @LINE - 1]]: no mma.sync multiplies f16 by bf16 into f32


@refused(block=32)
def of_another_shape():
    acc = nv.warp_accumulator(16, 16)
    acc += nv.smem((16, 16), nv.f16) @ nv.smem((8, 16), nv.f16).T
    # CHECK: TraceError: mma.py:[[# @LINE - 1]]: 16 x 16 @ 16 x 8 into a warp's 16 x 16 accumulator
