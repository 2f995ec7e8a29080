# RUN: %python %s | FileCheck %s

"""sched_barrier: one predicated event that depends on the bits of all values."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    x = nv.f32(nv.thread_id.x)
    nv.sched_barrier(x, nv.row_vector(x * 2.0, 0, 64))
    # CHECK: %[[A:\w+]] = arith.bitcast %{{.*}} : f32 to i32
    # CHECK: arith.bitcast
    # CHECK: arith.muli
    # CHECK: %[[NEXT:\w+]] = arith.muli
    # CHECK: %[[BITS:\w+]] = arith.addi %[[NEXT]],
    # CHECK: llvm.inline_asm has_side_effects {{.*}}{nvdsl.ptx = "order"} "{ .reg .pred p; setp.eq.b32 p, $0, 1597675201; @p pmevent 0; }", "r" %[[BITS]]


# CHECK-LABEL: .entry kernel
# CHECK: setp.eq.b32 p, %r{{[0-9]+}}, 1597675201; @p pmevent 0;


@refused()
def nothing():
    nv.sched_barrier()
    # CHECK: TraceError: sched_barrier.py:[[# @LINE - 1]]: nv.sched_barrier without a value
    # CHECK-NEXT: rule: it keeps the computation of values in front of what follows
