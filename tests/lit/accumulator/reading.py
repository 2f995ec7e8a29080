# RUN: %python %s | FileCheck %s

"""Every way of reading an accumulator ties its registers to the point after the wait: inline PTX named `touch`."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 8))
def kernel(d):
    acc = nv.accumulator(64, 8)
    acc += nv.smem((64, 16), nv.f16, swizzle=32) @ nv.smem((8, 16), nv.f16, swizzle=32).T
    nv.wgmma_wait(0)
    # CHECK: %[[D:\w+]] = nvvm.wgmma.mma_async
    # CHECK: nvvm.wgmma.wait.group.sync.aligned 0
    for row, col, x in acc.elements():
        # Thread t, register r: row t // 32 * 16 + t % 32 // 4 (+ 8 for r of 2 and 3), column t % 4 * 2 (+ r % 2).
        d[row, col] = x
    # CHECK: %[[TIED:\w+]] = llvm.inline_asm has_side_effects {{.*}}{nvdsl.ptx = "touch"} "", "=f,=f,=f,=f,0,1,2,3" %[[D]] :
    # CHECK: %[[X0:\w+]] = llvm.extractvalue %[[TIED]][0]
    # CHECK: %[[X3:\w+]] = llvm.extractvalue %[[TIED]][3]
    # CHECK: memref.store %[[X0]], %{{.*}}(line [[# @LINE - 4]])
    # CHECK: memref.store %[[X3]],
    # CHECK-NOT: touch
    ((a, b, c, e),) = acc.registers()
    d[0, 0] = a
    # CHECK: memref.store %[[X0]],
