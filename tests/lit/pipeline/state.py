# RUN: %python %s | FileCheck %s

"""PipelineState.next: the stage counts up and wraps, the phase flips where it wraps; a traced loop carries both."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    state = nv.PipelineState(3)
    # CHECK: %[[STAGE:\w+]] = arith.constant 0 : i32
    # CHECK: %[[PHASE:\w+]] = arith.constant 0 : i32
    state = state.next()
    # CHECK: %[[ONE:\w+]] = arith.constant 1 : i32
    # CHECK: %[[NEXT:\w+]] = arith.addi %[[STAGE]], %[[ONE]]
    # CHECK: %[[STAGES:\w+]] = arith.constant 3 : i32
    # CHECK: %[[WRAPS:\w+]] = arith.cmpi eq, %[[NEXT]], %[[STAGES]]
    # CHECK: %[[NEW:\w+]] = arith.select %[[WRAPS]], %{{.*}}, %[[NEXT]] : i32
    # CHECK: %[[FLIPPED:\w+]] = arith.xori %[[PHASE]],
    # CHECK: %[[PARITY:\w+]] = arith.select %[[WRAPS]], %[[FLIPPED]], %[[PHASE]] : i32
    # CHECK-SAME: (line [[# @LINE - 8]])
    for _ in nv.range(10):
        state = state.next()
    # CHECK: %[[LAST:\w+]]:2 = scf.for {{.*}} iter_args(%[[S:\w+]] = %[[NEW]], %[[P:\w+]] = %[[PARITY]]) -> (i32, i32)
    # CHECK: arith.addi %[[S]],
    # CHECK: arith.xori %[[P]],
    # CHECK: scf.yield
    nv.Mbarriers(3)[state.stage].wait(state.phase)
    # CHECK: %[[SLOT:\w+]] = arith.index_cast %[[LAST]]#0 : i32 to index
    # CHECK: %[[WAITED:\w+]] = arith.trunci %[[LAST]]#1 : i32 to i1
    # CHECK: nvgpu.mbarrier.try_wait.parity %{{.*}}[%[[SLOT]]], %[[WAITED]],


# One slot has no stage to count.
# CHECK-LABEL: gpu.launch
@show()
def one_stage():
    _ = nv.PipelineState(1).next()
    # CHECK-NOT: arith.addi
    # CHECK: arith.xori
    # CHECK-NOT: arith.select
    # CHECK: gpu.terminator


@refused()
def no_stages():
    nv.PipelineState(0)
    # CHECK: TraceError: state.py:[[# @LINE - 1]]: a ring of 0 stages
    # CHECK-NEXT: rule: the number of stages is a Python int of at least 1
    # CHECK-NEXT: fix: pass stages as a keyword argument of the host function
