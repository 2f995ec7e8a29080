# RUN: %python %s | FileCheck %s

"""warp_id and warpgroup_id go through a shuffle, so that the compiler knows that they are uniform in the warp."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 8), ptx=True, block=256)
def kernel(out):
    out[nv.warp_id()] = 0
    # CHECK: %[[WARP:\w+]] = arith.shrsi
    # CHECK: %[[LANE:\w+]] = arith.constant 0 : i32
    # CHECK: nvvm.shfl.sync idx %{{.*}}, %[[WARP]], %[[LANE]], {{.*}}(line [[# @LINE - 3]])
    out[nv.warpgroup_id()] = 0
    # CHECK: %[[SEVEN:\w+]] = arith.constant 7 : i32
    # CHECK: %[[GROUP:\w+]] = arith.shrsi %{{.*}}, %[[SEVEN]]
    # CHECK: nvvm.shfl.sync idx %{{.*}}, %[[GROUP]],


# CHECK-LABEL: .entry kernel
# CHECK: shr.u32 [[WARP:%r\w+]], {{.*}}, 5;
# CHECK: shfl.sync.idx.b32 {{.*}}, [[WARP]], 0, 31, -1;
