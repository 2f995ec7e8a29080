# RUN: %python -W always %s 2>&1 | FileCheck %s

"""Rows of ldmatrix and stmatrix: each starts at a multiple of 16 bytes; in the same banks they cost time."""

from show import refused, show

import nvdsl as nv


@refused(block=32)
def rows_of_40_bytes():
    tile = nv.smem((8, 20), nv.f16)
    nv.ldmatrix(tile.pointer(nv.thread_id.x % 8 * 40), 1)
    # CHECK: VerifyError: rows_of_matrices.py:[[# @LINE - 1]]: ldmatrix: lane 1 names a row at byte 40 of shared memory, 8 bytes past a multiple of 16
    # CHECK-NEXT: rule: the 16 bytes of each row of a matrix are aligned (PTX ISA, ldmatrix)
    # CHECK-NEXT: fix: tile.ldmatrix((row, col)) and tile.stmatrix compute the addresses


# CHECK: rows_of_matrices.py:[[# @LINE + 5]]: AdvisoryWarning: stmatrix takes 8 times as long as without bank conflicts: 8 of a matrix's rows
# CHECK-LABEL: gpu.launch
@show(block=32)
def rows_of_128_bytes():
    tile = nv.smem((16, 64), nv.f16)
    tile.stmatrix([nv.i32(0)] * 4, (0, 0))
    # CHECK: nvvm.stmatrix


# CHECK-LABEL: gpu.launch
# CHECK-NOT: AdvisoryWarning
@show(block=32)
def swizzled():
    nv.smem((16, 64), nv.f16, swizzle=128).stmatrix([nv.i32(0)] * 4, (0, 0))
    # CHECK: nvvm.stmatrix {{.*}}(line [[# @LINE - 1]])
