# RUN: %python %s | FileCheck %s

"""tile.cols(start, count): whole panels of a tile."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    tile = nv.smem((64, 256), nv.f16, swizzle=128)
    part = tile.cols(64, 128)
    assert part.shape == (64, 128) and part.bytes == 16384
    part[0, 64] = 1.0
    # Panel 1 of the part is panel 2 of the tile.
    # CHECK: %[[BYTE:\w+]] = arith.constant 16384 : index
    # CHECK: memref.view %{{.*}}[%[[BYTE]]][]
    tile.cols(nv.thread_id.x % 4 * 64, 64)[0, 0] = 1.0
    # CHECK: gpu.printf "the first of 64 cols of a tile of 64x256 f16"
    # CHECK-SAME: {nvdsl.bounds = array<i64: 193>, nvdsl.multiple = 64 : i64}
    # CHECK: %[[PANEL:\w+]] = arith.shrsi
    # CHECK: arith.muli %[[PANEL]], %c8192_i32


@refused()
def part_of_a_panel():
    nv.smem((64, 128), nv.f16, swizzle=128).cols(32, 64)
    # CHECK: TraceError: cols.py:[[# @LINE - 1]]: cols(32, 64) of a tile with panels of 64 columns
    # CHECK-NEXT: rule: a part of a tile takes whole panels
    # CHECK-NEXT: fix: use multiples of 64 columns


@refused()
def outside():
    nv.smem((64, 128), nv.f16, swizzle=128).cols(64, 128)
    # CHECK: TraceError: cols.py:[[# @LINE - 1]]: cols(64, 128) of a tile of 128 cols
