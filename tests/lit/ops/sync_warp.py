# RUN: %python %s | FileCheck %s

"""sync_warp: a barrier of the lanes in the mask, the whole warp by default."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.sync_warp()
    # CHECK: %[[ALL:.*]] = arith.constant -1 : i32
    # CHECK: nvvm.bar.warp.sync %[[ALL]] : i32 (line [[# @LINE - 2]])
    nv.sync_warp(0xFF)
    # CHECK: %[[EIGHT:\w+]] = arith.constant 255 : i32
    # CHECK: nvvm.bar.warp.sync %[[EIGHT]]


# CHECK-LABEL: .entry kernel
# CHECK: bar.warp.sync -1;
# CHECK: bar.warp.sync 255;


@refused()
def more_than_32_lanes():
    nv.sync_warp(1 << 32)
    # CHECK: TraceError: sync_warp.py:[[# @LINE - 1]]: a warp's mask of 0x100000000
    # CHECK-NEXT: rule: bit i of the mask stands for lane i, of 32 (PTX ISA, membermask)
    # CHECK-NEXT: fix: 0xffffffff is the whole warp


@refused()
def nobody():
    nv.sync_warp(0)
    # CHECK: TraceError: sync_warp.py:[[# @LINE - 1]]: a warp's mask of 0x0
