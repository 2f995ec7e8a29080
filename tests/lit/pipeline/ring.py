# RUN: %python %s | FileCheck %s

"""nv.Ring: full barriers for one producer, empty ones for the consumers; acquire, wait and release use the slot's."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(block=1)
def kernel():
    ring = nv.Ring(4, bytes=8192, consumers=2)
    # CHECK: %[[FULL:\w+]] = nvgpu.mbarrier.create -> <{{.*}}num_barriers = 4> (line [[# @LINE - 1]])
    # CHECK: %[[ONE:\w+]] = arith.constant 1 : index
    # CHECK-COUNT-4: nvgpu.mbarrier.init %[[FULL]][
    # CHECK: %[[EMPTY:\w+]] = nvgpu.mbarrier.create
    # CHECK: %[[TWO:\w+]] = arith.constant 2 : index
    # CHECK-COUNT-4: nvgpu.mbarrier.init %[[EMPTY]][
    # CHECK: gpu.barrier
    produced = ring.producer_state()
    # CHECK: arith.constant 0 : i32
    # CHECK: %[[AHEAD:\w+]] = arith.constant 1 : i32
    full = ring.acquire(produced)
    # CHECK: %[[PHASE:\w+]] = arith.trunci %[[AHEAD]] : i32 to i1
    # CHECK: nvgpu.mbarrier.try_wait.parity %[[EMPTY]][%{{.*}}], %[[PHASE]], {{.*}}(line [[# @LINE - 2]])
    # CHECK: %[[BYTES:\w+]] = arith.constant 8192 : index
    # CHECK: nvgpu.mbarrier.arrive.expect_tx %[[FULL]][%[[SLOT:\w+]]], %[[BYTES]]
    assert full.group is ring.full
    consumed = ring.consumer_state()
    ring.wait(consumed)
    # CHECK: nvgpu.mbarrier.try_wait.parity %[[FULL]][
    ring.release(consumed)
    # CHECK: nvgpu.mbarrier.arrive %[[EMPTY]][
    leader = nv.lane_id() == 0
    ring.release(consumed, predicate=leader)
    # CHECK: scf.if
    # CHECK: nvgpu.mbarrier.arrive %[[EMPTY]][


# CHECK-LABEL: gpu.launch
@show()
def without_sync():
    nv.Ring(2, bytes=16, sync=False)
    # CHECK: nvvm.fence.mbarrier.init
    # CHECK: nvvm.fence.mbarrier.init
    # CHECK-NOT: gpu.barrier
    # CHECK: gpu.terminator


@refused()
def no_stages():
    nv.Ring(0, bytes=16)
    # CHECK: TraceError: ring.py:[[# @LINE - 1]]: a ring of 0 stages


@refused()
def traced_stages():
    nv.Ring(nv.block_dim.x, bytes=16)
    # CHECK: TraceError: ring.py:[[# @LINE - 1]]: a ring of {{.*}} stages


@refused()
def no_consumers():
    nv.Ring(2, bytes=16, consumers=0)
    # CHECK: TraceError: ring.py:[[# @LINE - 1]]: mbarrier.init with 0 arrivals


@refused()
def slot_too_large():
    nv.Ring(2, bytes=1 << 20)
    # CHECK: TraceError: ring.py:[[# @LINE - 1]]: an mbarrier that expects 1048576 bytes
