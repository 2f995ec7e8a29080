# RUN: %python %s | FileCheck %s

"""Traced indices that are surely outside of a tile, of a stack of tiles, of a group of mbarriers."""

from show import refused

import nvdsl as nv


@refused()
def column():
    tile = nv.smem((64, 64), nv.f16)
    tile[0, nv.thread_id.x] = 1.0
    # CHECK: VerifyError: indices.py:[[# @LINE - 1]]: index 64 on axis 1 of a tile of 64x64 f16: the last one is 63
    # CHECK-NEXT: rule: each index is 0 to its extent minus 1; negative indices don't wrap in a kernel
    # CHECK-NEXT: fix: check the index: the loop's bounds, or the condition that guards the access


@refused()
def stage():
    stack = nv.smem((4, 64, 64), nv.f16)
    for k in nv.range(5):
        stack[k][0, 0] = 1.0
        # CHECK: VerifyError: indices.py:[[# @LINE - 1]]: index 4 of a stack of 4 tiles: the last one is 3


@refused()
def before():
    stack = nv.smem((4, 64, 64), nv.f16)
    for k in nv.range(4):
        stack[k - 1][0, 0] = 1.0
        # CHECK: VerifyError: indices.py:[[# @LINE - 1]]: index -1 of a stack of 4 tiles


@refused()
def barrier():
    full = nv.Mbarriers(2, arrivals=128)
    full[nv.thread_id.x // 128 + 2].arrive()
    # CHECK: VerifyError: indices.py:[[# @LINE - 1]]: mbarrier 2 of `full`: the last one is 1


@refused()
def multiple():
    tile = nv.smem((64, 64), nv.f16, swizzle=128)
    tile.rows(nv.thread_id.x // 32 * 4, 16)[0, 0] = 1.0
    # CHECK: VerifyError: indices.py:[[# @LINE - 1]]: index 4 of the first of 16 rows of a tile of 64x64 f16: no multiple
    # CHECK-NEXT: rule: a part of a tile starts where the pattern of its swizzle does
    # CHECK-NEXT: fix: use a multiple of 8
