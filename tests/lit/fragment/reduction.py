# RUN: %python %s | FileCheck %s

"""Reductions: two chains in each thread, then shuffles over the quad; over warps through shared memory."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    acc = nv.accumulator(64, 16)
    m = acc.max(axis=1)
    # CHECK-COUNT-6: arith.maxnumf
    # CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c1_i32
    # CHECK: arith.maxnumf
    # CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c2_i32
    # CHECK: arith.maxnumf
    part = acc.sum(axis=1, partial=True)
    # CHECK-COUNT-6: arith.addf
    # CHECK-NOT: shfl
    total = (part * m).total()
    # CHECK-COUNT-2: arith.mulf
    # CHECK-COUNT-4: nvvm.shfl.sync bfly
    nv.sched_barrier(total)
    # CHECK: nvdsl.ptx = "order"
    nv.sched_barrier(acc.sum(axis=0, scratch=nv.smem(64, nv.f32), barrier=2))
    # CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c4_i32
    # CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c8_i32
    # CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c16_i32
    # CHECK: nvvm.barrier id = %c2_i32
    # CHECK: scf.if
    # CHECK-COUNT-4: memref.store
    # CHECK: nvvm.barrier id = %c2_i32
    # CHECK-COUNT-16: memref.load


@refused()
def columns_without_scratch():
    nv.accumulator(64, 16).sum(axis=0)
    # CHECK: TraceError: reduction.py:[[# @LINE - 1]]: sum(axis=0) with no scratch memory
    # CHECK-NEXT: rule: the rows of a column lie in 4 warps, which meet in shared memory: f32, an element for each warp and column
    # CHECK-NEXT: fix: scratch=nv.smem(64, nv.f32), and barrier= a named barrier of this warpgroup


@refused()
def a_part_as_a_sum():
    acc = nv.accumulator(64, 16)
    acc / acc.sum(axis=1, partial=True)[:, None]
    # CHECK: TraceError: reduction.py:[[# @LINE - 1]]: an operation on Accumulator of shape (64, 16) and FragmentVector of shape (64, 1) that each thread has a part of
    # CHECK-NEXT: rule: parts of sums can be added, and multiplied by whole numbers: anything else needs the sum
    # CHECK-NEXT: fix: write v.total() first, which adds the parts of the threads that share a row
