# RUN: %python %s | FileCheck %s

"""tile.rows(start, count): a part of a tile from a multiple of 8 on, known or traced; it keeps the tile's panels."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    tile = nv.smem((64, 128), nv.f16, swizzle=128)
    part = tile.rows(8, 16)
    assert part.shape == (16, 128) and part.bytes == 4096
    part[0, 64] = 1.0
    # Row 8 of panel 1, whose panels stay 8192 bytes apart: 8192 + 8 * 128.
    # CHECK: %[[BYTE:\w+]] = arith.constant 9216 : index
    # CHECK: memref.view %{{.*}}[%[[BYTE]]][]
    tile.rows(nv.thread_id.x % 8 * 8, 8)[0, 0] = 1.0
    # CHECK: %[[START:\w+]] = arith.muli
    # CHECK: gpu.printf "the first of 8 rows of a tile of 64x128 f16"
    # CHECK-SAME: {nvdsl.bounds = array<i64: 57>, nvdsl.multiple = 8 : i64}, %[[START]] :
    # CHECK: %[[OFFSET:\w+]] = arith.muli %[[START]], %c128_i32
    # CHECK: %[[INDEX:\w+]] = arith.index_cast %[[OFFSET]]
    # CHECK: memref.view %{{.*}}[%[[INDEX]]][]


@refused()
def in_the_pattern():
    nv.smem((64, 64), nv.f16, swizzle=128).rows(4, 8)
    # CHECK: TraceError: rows.py:[[# @LINE - 1]]: rows() with start 4
    # CHECK-NEXT: rule: the swizzle pattern repeats every 8 rows, so a part of a tile starts at a multiple of 8
    # CHECK-NEXT: fix: use multiples of 8 rows


@refused()
def outside():
    nv.smem((64, 64), nv.f16, swizzle=128).rows(48, 32)
    # CHECK: TraceError: rows.py:[[# @LINE - 1]]: rows(48, 32) of a tile of 64 rows
    # CHECK-NEXT: rule: a part of a tile lies within it: rows 0 to 63
    # CHECK-NEXT: fix: check the start and the count


@refused()
def more_than_all():
    nv.smem((64, 64), nv.f16, swizzle=128).rows(nv.thread_id.x, 128)
    # CHECK: TraceError: rows.py:[[# @LINE - 1]]: rows(..., 128) of a tile of 64 rows
