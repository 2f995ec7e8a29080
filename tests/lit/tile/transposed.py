# RUN: %python %s | FileCheck %s

"""tile.T: the same bytes, rows and columns swapped; tile.T.T is the tile."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    tile = nv.smem((16, 64), nv.f16)
    assert tile.T.shape == (64, 16) and tile.T.T.shape == (16, 64)
    tile.T[5, 3] = 1.0
    # CHECK: %[[BYTE:\w+]] = arith.constant 394 : index
    # CHECK: memref.view %{{.*}}[%[[BYTE]]][]
    tile.T.T[3, 5] = 1.0
    # CHECK: %[[SAME:\w+]] = arith.constant 394 : index
    # CHECK: memref.view %{{.*}}[%[[SAME]]][]


@refused()
def out_of_range():
    nv.smem((16, 64), nv.f16).T[3, 20]
    # CHECK: TraceError: transposed.py:[[# @LINE - 1]]: tile index (3, 20) outside of (64, 16)
