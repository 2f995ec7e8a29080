# RUN: %python %s | FileCheck %s

"""mma.sync in a branch that a part of the warp takes: the dialect's op, and the inline PTX of the forms that it lacks."""

from show import refused

import nvdsl as nv


def product(k, dtype):
    words = [nv.i32(0)] * 4
    nv.mma_sync(words, words[:2], [nv.f32(0.0)] * 4, k=k, a_dtype=dtype)


@refused()
def half_a_warp():
    if nv.lane_id() < 16:
        product(16, nv.f16)
        # CHECK: VerifyError: mma_in_a_branch.py:[[# @LINE - 7]]: a part of a warp reaches mma.sync.aligned: threads 0-15
        # CHECK-SAME: of 32; the others are kept out at line [[# @LINE - 3]]
        # CHECK-NEXT: rule: all threads of a warp execute it together (PTX ISA, mma.sync.aligned)


@refused()
def inline():
    if nv.lane_id() == 0:
        product(32, nv.e4m3)
        # CHECK: a part of a warp reaches mma.sync.aligned: threads 0
