# RUN: %python %s | FileCheck %s

"""arrive(predicate=...): without a byte count, too, only the threads where the predicate holds arrive, by one
predicated instruction and no branch."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    barrier = nv.Mbarriers(1)[0]
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    leader = nv.lane_id() == 0
    # CHECK: %[[LEADER:\w+]] = arith.cmpi eq
    barrier.arrive(predicate=leader)
    # CHECK-NEXT: scf.if %[[LEADER]] {
    # CHECK-NEXT: nvgpu.mbarrier.arrive %[[GROUP]][%{{.*}}] : {{.*}}(line [[# @LINE - 2]])
    # CHECK-NEXT: } {nvdsl.predicated} (line [[# @LINE - 3]])
    # CHECK-NEXT: gpu.terminator


# CHECK-LABEL: .entry kernel
# CHECK-NOT: bra
# CHECK: @%p{{[0-9]+}} mbarrier.arrive.shared.b64 _, [%r{{[0-9]+}}];


# With bytes the instruction takes the predicate.
# CHECK-LABEL: gpu.launch
@show(ptx=True)
def with_bytes():
    barrier = nv.Mbarriers(1)[0]
    leader = nv.lane_id() == 0
    # CHECK: %[[LEADER:\w+]] = arith.cmpi eq
    barrier.arrive(4096, predicate=leader)
    # CHECK: %[[BYTES:\w+]] = arith.constant 4096 : index
    # CHECK: nvgpu.mbarrier.arrive.expect_tx %{{.*}}, %[[BYTES]], predicate = %[[LEADER]] :


# CHECK-LABEL: .entry kernel
# CHECK: @%p{{.*}} mbarrier.arrive.expect_tx.shared.b64


@refused()
def no_condition():
    nv.Mbarriers(1)[0].arrive(predicate=nv.lane_id())
    # CHECK: TraceError: arrive_predicate.py:[[# @LINE - 1]]: a condition of type i32
