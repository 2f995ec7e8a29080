# RUN: %python %s | FileCheck %s

"""Instructions with a mask that a part of the lanes reaches: undefined, but where the others execute it elsewhere."""

from show import array, refused, show

import nvdsl as nv


@refused()
def elected():
    if nv.lane_id() < 16:
        nv.elect()
        # CHECK: VerifyError: mask_in_a_branch.py:[[# @LINE - 1]]: elect.sync with the mask 0xffffffff is executed by threads
        # CHECK-SAME: 0-15 of a warp alone; the others are kept out at line [[# @LINE - 3]]
        # CHECK-NEXT: rule: the lanes that the mask names execute it, and no others (PTX ISA, membermask)
        # CHECK-NEXT: fix: move it out of the `if`, or name the lanes that are there


@refused()
def met():
    if nv.thread_id.x % 32 == 0:
        nv.sync_warp()
        # CHECK: VerifyError: mask_in_a_branch.py:[[# @LINE - 1]]: bar.warp.sync with the mask 0xffffffff


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 128))
def in_both_branches(out):
    t = nv.thread_id.x
    if nv.lane_id() < 16:
        out[t] = nv.shuffle_xor(t, 16)
    else:
        out[t] = nv.shuffle_xor(t, 16) + 1
    if nv.lane_id() < 8:
        nv.sync_warp(0xFF)
    # CHECK-COUNT-2: nvvm.shfl.sync
    # CHECK: nvvm.bar.warp.sync
