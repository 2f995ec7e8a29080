# RUN: %python %s | FileCheck %s

"""tile[r0:r1, c0:c1]: a part of a tile, with its swizzle where that has one: whole panels, rows from a multiple of 8."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    tile = nv.smem((64, 128), nv.f16, swizzle=128)
    part = tile[8:40, 64:]
    assert part.shape == (32, 64) and part.swizzle == 128 and part.offset == 64 * 128 + 8 * 128
    assert tile.T[64:, 8:40].offset == part.offset and tile.T[64:, 8:40].shape == (64, 32)
    row = nv.thread_id.x // 32 * 16
    moving = tile[row : row + 16, :]
    # CHECK: gpu.printf "the first of 16 rows of a tile of 64x128 f16" {nvdsl.bounds = array<i64: 49>, nvdsl.multiple = 8 : i64}
    assert moving.shape == (16, 128)
    dense = nv.smem((64, 36), nv.f32)[3:9, 5:30]
    assert dense.shape == (6, 25) and dense.layout.pitch == 144
    dense[1, 2] = 1.0
    # CHECK: memref.view {{.*}} to memref<1xf32
    assert dense[0:3, 1:][1:, 4:].layout.offset(1, 1) == 148


@refused()
def within_a_panel():
    nv.smem((64, 128), nv.f16, swizzle=128)[:, 32:96]
    # CHECK: TraceError: part.py:[[# @LINE - 1]]: cols(32, 64) of a tile with panels of 64 columns
    # CHECK-NEXT: rule: a part of a tile takes whole panels


@refused()
def within_a_pattern():
    nv.smem((64, 128), nv.f16, swizzle=128)[4:12, :]
    # CHECK: TraceError: part.py:[[# @LINE - 1]]: rows() with start 4


@refused()
def a_row():
    nv.smem((64, 128), nv.f16, swizzle=128)[4, :]
    # CHECK: TraceError: part.py:[[# @LINE - 1]]: a tile indexed with a number and a slice
    # CHECK: fix: tile[i : i + 1, :] for a row, tile.vector((i, j), 8) for some of its elements


@refused()
def with_a_step():
    nv.smem((64, 128), nv.f16)[::2, :]
    # CHECK: TraceError: part.py:[[# @LINE - 1]]: a tile indexed with a slice of step 2


@refused()
def filled_by_a_box():
    nv.smem((64, 128), nv.f16)[:, 64:].panel(0)
    # CHECK: TraceError: part.py:[[# @LINE - 1]]: a box of a tile of 64x64 f16, whose rows are 256 bytes apart
