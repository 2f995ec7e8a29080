# RUN: %python %s | FileCheck %s

"""warp_id and warpgroup_id go through a shuffle, so that the compiler knows that they are uniform in the warp. It is
made once, at the kernel's start, where all lanes are: a part of a warp may ask."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 8), ptx=True, block=256)
def kernel(out):
    # CHECK: %[[SEVEN:\w+]] = arith.constant 7 : i32
    # CHECK: %[[GROUP:\w+]] = arith.shrsi %{{.*}}, %[[SEVEN]]
    # CHECK: nvvm.shfl.sync idx %{{.*}}, %[[GROUP]],
    # CHECK: %[[WARP:\w+]] = arith.shrsi
    # CHECK: %[[LANE:\w+]] = arith.constant 0 : i32
    # CHECK: nvvm.shfl.sync idx %{{.*}}, %[[WARP]], %[[LANE]], {{.*}}(line [[# @LINE + 3]])
    # CHECK: scf.if
    if nv.lane_id() == 0:
        out[nv.warp_id()] = nv.warp_id() + nv.warpgroup_id()
    # CHECK-NOT: nvvm.shfl.sync
    # CHECK: gpu.terminator


# CHECK-LABEL: .entry kernel
# CHECK: shr.u32 [[WARP:%r\w+]], {{.*}}, 5;
# CHECK: shfl.sync.idx.b32 {{.*}}, [[WARP]], 0, 31, -1;
