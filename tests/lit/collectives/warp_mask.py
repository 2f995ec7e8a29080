# RUN: %python %s | FileCheck %s

"""Which groups of lanes there are, and collectives of a warp that a part of their lanes reaches."""

from show import array, refused

import nvdsl as nv


@refused(array(nv.f32, 32), block=32)
def width(x):
    _ = nv.warp.sum(x[0], width=12)
    # CHECK: TraceError: warp_mask.py:[[# @LINE - 1]]: groups of 12 lanes, in a block of 32 threads
    # CHECK-NEXT: rule: a warp is divided into groups of 1, 2, 4, 8, 16, 32 lanes, each of which is whole


@refused(array(nv.f32, 32), block=48)
def block(x):
    _ = nv.warp.sum(x[0])
    # CHECK: TraceError: warp_mask.py:[[# @LINE - 1]]: groups of 32 lanes, in a block of 48 threads
    # CHECK: fix: launch a multiple of them; give threads that have nothing what changes no result, 0 for a sum


@refused(array(nv.f32, 32), block=32)
def a_part_of_a_group(x):
    _ = nv.warp.sum(x[0], width=8, mask=0xF)
    # CHECK: TraceError: warp_mask.py:[[# @LINE - 1]]: groups of 8 lanes with the mask 0xf
    # CHECK-NEXT: rule: the mask names the lanes that execute it, whole groups of them (PTX ISA, membermask)


@refused(array(nv.f32, 128), compile=True)
def in_a_branch(x):
    t = nv.thread_id.x
    if nv.lane_id() < 16:
        x[t] = nv.warp.sum(x[t], width=16)
        # CHECK: VerifyError: warp_mask.py:[[# @LINE - 1]]: shfl.sync with the mask 0xffffffff is executed by threads
        # CHECK: fix: move it out of the `if`, or name the lanes that are there
