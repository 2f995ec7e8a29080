# RUN: %python %s | FileCheck %s

"""acc.fragment: the sums as an A operand, four registers for each 16 columns; the left of two in the low half."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 8))
def kernel(d):
    p = nv.accumulator(64, 32)
    p += nv.smem((64, 16), nv.bf16, swizzle=32) @ nv.smem((16, 32), nv.bf16, swizzle=64)
    nv.wgmma_wait(0)
    a = p.fragment(nv.bf16)
    assert a.shape == (64, 32)
    # CHECK: nvvm.wgmma.wait.group.sync.aligned 0
    # CHECK: %[[TIED:\w+]] = llvm.inline_asm {{.*}}{nvdsl.ptx = "touch"}
    # CHECK: %[[X0:\w+]] = llvm.extractvalue %[[TIED]][0]
    # CHECK: %[[X1:\w+]] = llvm.extractvalue %[[TIED]][1]
    # PTX's cvt takes the high half first.
    # CHECK: %[[PAIR:\w+]] = nvvm.convert.f32x2.to.bf16x2 %[[X1]], %[[X0]]
    # CHECK: llvm.bitcast %[[PAIR]] : vector<2xbf16> to i32
    # CHECK-COUNT-7: nvvm.convert.f32x2.to.bf16x2
    # CHECK-NOT: nvvm.convert.f32x2.to.bf16x2
    o = nv.accumulator(64, 8)
    o += a @ nv.smem((8, 32), nv.bf16, swizzle=64).T
    # CHECK: nvvm.wgmma.fence.aligned
    # CHECK-COUNT-2: nvdsl.ptx = "wgmma"
    # CHECK: nvvm.wgmma.commit.group.sync.aligned
    nv.wgmma_wait(0)
    o.store(d, (0, 0))


@refused()
def of_f32():
    nv.accumulator(64, 16).fragment(nv.f32)
    # CHECK: TraceError: fragment.py:[[# @LINE - 1]]: a 64 x 16 accumulator as a fragment of f32
    # CHECK-NEXT: rule: an accumulator's registers are those of an A operand for f16 and bf16, 16 columns a step
    # CHECK-NEXT: fix: convert to nv.f16 or nv.bf16, with a multiple of 16 columns


@refused()
def part_of_a_step():
    nv.accumulator(64, 24).fragment(nv.f16)
    # CHECK: TraceError: fragment.py:[[# @LINE - 1]]: a 64 x 24 accumulator as a fragment of f16
