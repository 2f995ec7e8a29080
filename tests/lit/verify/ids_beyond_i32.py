# RUN: %python %s | FileCheck %s

"""A position that is made of ids and is no i32 in the last thread, in a grid that no simulation comes to the end of."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f32, 1 << 33), grid=1 << 20)
def position(x):
    x[nv.block_id.x * 4096 + nv.thread_id.x] = 1.0
    # CHECK: VerifyError: ids_beyond_i32.py:[[# @LINE - 1]]: a sum or product of ids is 4,294,963,200 in the last
    # CHECK-NEXT: rule: arithmetic of i32 wraps around, and this becomes an index, or is compared with one
    # CHECK-NEXT: fix: compute in 64 bits, nv.i64(nv.block_id.x) * y, or index an axis by each id: x[row, col]
