# RUN: %python %s | FileCheck %s

"""try_wait (wait): the phase is a parity: 0 or 1, a bool, a traced condition, or a traced integer's lowest bit."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    barrier = nv.Mbarriers(1)[0]
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    # CHECK: %[[ZERO:\w+]] = arith.constant 0 : index
    barrier.wait(0)
    # CHECK: %[[EVEN:\w+]] = arith.constant false
    # CHECK: nvgpu.mbarrier.try_wait.parity %[[GROUP]][%[[ZERO]]], %[[EVEN]], {{.*}}(line [[# @LINE - 2]])
    barrier.try_wait(True, ticks=100)
    # CHECK: %[[ODD:\w+]] = arith.constant true
    # CHECK: %[[TICKS:\w+]] = arith.constant 100 : index
    # CHECK: nvgpu.mbarrier.try_wait.parity %[[GROUP]][%[[ZERO]]], %[[ODD]], %[[TICKS]]
    t = nv.thread_id.x
    barrier.wait(t // 4)
    # CHECK: %[[ROUND:\w+]] = arith.shrsi
    # CHECK: %[[PARITY:\w+]] = arith.trunci %[[ROUND]] : i32 to i1
    # CHECK: nvgpu.mbarrier.try_wait.parity %[[GROUP]][%[[ZERO]]], %[[PARITY]],
    barrier.wait(t > 3)
    # CHECK: %[[LATE:\w+]] = arith.cmpi sgt
    # CHECK: nvgpu.mbarrier.try_wait.parity %[[GROUP]][%[[ZERO]]], %[[LATE]],


# The instruction gives up after a while: it stands in a loop.
# CHECK-LABEL: .entry kernel
# CHECK: LAB_WAIT:
# CHECK-NEXT: mbarrier.try_wait.parity.shared.b64 P1, [%r{{.*}}], 0,
# CHECK-NEXT: @P1 bra.uni DONE;
# CHECK-NEXT: bra.uni LAB_WAIT;


@refused()
def no_parity():
    nv.Mbarriers(1)[0].wait(2)
    # CHECK: TraceError: try_wait.py:[[# @LINE - 1]]: mbarrier wait for phase 2
    # CHECK-NEXT: rule: a wait names a parity, 0 or 1 (PTX ISA, mbarrier.try_wait.parity)
    # CHECK-NEXT: fix: pass `phase & 1`


@refused()
def no_integer():
    nv.Mbarriers(1)[0].wait(nv.f32(1.0))
    # CHECK: TraceError: try_wait.py:[[# @LINE - 1]]: a traced f32 where an integer belongs
