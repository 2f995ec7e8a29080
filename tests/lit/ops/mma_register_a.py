# RUN: %python %s | FileCheck %s

"""wgmma with A in registers: inline PTX, called `wgmma` for the verifier and the simulator; A has no trans bit."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 16), ptx=True)
def kernel(d):
    p = nv.accumulator(64, 16)
    p += nv.smem((64, 16), nv.f16, swizzle=32) @ nv.smem((16, 16), nv.f16, swizzle=32)
    nv.wgmma_wait(0)
    # CHECK: nvvm.wgmma.wait.group.sync.aligned 0
    o = nv.accumulator(64, 16)
    o += p.fragment(nv.f16) @ nv.smem((16, 16), nv.f16, swizzle=32)
    # CHECK: %[[A:\w+]] = llvm.bitcast %{{.*}} : vector<2xf16> to i32
    # CHECK: nvvm.wgmma.fence.aligned
    # CHECK: llvm.inline_asm has_side_effects {{.*}}{nvdsl.ptx = "wgmma"}
    # CHECK-SAME: wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16
    # CHECK-SAME: "=f,=f,=f,=f,=f,=f,=f,=f,r,r,r,r,l,r,0,1,2,3,4,5,6,7" %[[A]],
    # CHECK-SAME: (line [[# @LINE - 6]])
    # CHECK: nvvm.wgmma.commit.group.sync.aligned
    nv.wgmma_wait(0)
    o.store(d, (0, 0))


# CHECK-LABEL: .entry kernel
# CHECK: wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%r{{.*}}}, %rd{{.*}}, %rd{{.*}}, p, 1, 1, 0, 1;
# CHECK: wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%r{{.*}}}, {%r{{\d+}}, %r{{\d+}}, %r{{\d+}}, %r{{\d+}}}, %rd{{\d+}}, p, 1, 1, 1; }
