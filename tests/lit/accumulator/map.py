# RUN: %python %s | FileCheck %s

"""acc.map(f): a new accumulator; registers that arithmetic made are tied down before the next wgmma's fence."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 64, 8))
def kernel(d):
    A, B = nv.smem((64, 16), nv.f16, swizzle=32), nv.smem((8, 16), nv.f16, swizzle=32)
    acc = nv.accumulator(64, 8)
    acc += A @ B.T
    nv.wgmma_wait(0)
    # CHECK: nvvm.wgmma.wait.group.sync.aligned 0
    acc = acc.map(lambda x: x * 0.5)
    # CHECK: %[[X:\w+]] = llvm.extractvalue
    # CHECK: %[[HALF:\w+]] = arith.constant 5.000000e-01 : f32
    # CHECK: %[[Y:\w+]] = arith.mulf %{{.*}}, %[[HALF]]{{.*}}(line [[# @LINE - 3]])
    # CHECK-COUNT-3: arith.mulf
    # CHECK: llvm.insertvalue %[[Y]],
    acc += A @ B.T
    # CHECK: %[[TIED:\w+]] = llvm.inline_asm {{.*}}{nvdsl.ptx = "touch"}
    # CHECK: nvvm.wgmma.fence.aligned
    # CHECK: nvvm.wgmma.mma_async %{{.*}}, %{{.*}}, %[[TIED]],
    nv.wgmma_wait(0)
    acc.store(d, (0, 0))


@refused()
def no_number():
    nv.accumulator(64, 8).map(lambda x: "half")
    # CHECK: TraceError: map.py:[[# @LINE - 1]]: 'half' is not a number
