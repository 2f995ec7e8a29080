# RUN: %python %s | FileCheck %s

"""mbarrier.init: the count is the number of arrivals of a phase; a predicate says which threads execute it."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    barrier = nv.Mbarriers(2)[1]
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    # CHECK: %[[ONE:\w+]] = arith.constant 1 : index
    barrier.init(7)
    # CHECK: %[[COUNT:\w+]] = arith.constant 7 : index
    # CHECK: nvgpu.mbarrier.init %[[GROUP]][%[[ONE]]], %[[COUNT]] : {{.*}}(line [[# @LINE - 2]])
    first = nv.thread_id.x == 0
    # CHECK: %[[FIRST:\w+]] = arith.cmpi eq
    barrier.init(1, predicate=first)
    # CHECK: nvgpu.mbarrier.init %[[GROUP]][%[[ONE]]], %{{.*}}, predicate = %[[FIRST]] :


# CHECK-LABEL: .entry kernel
# CHECK: mbarrier.init.shared.b64 [__dynamic_shmem__0+8],
# CHECK: @%p{{.*}} mbarrier.init.shared.b64


@refused()
def count_too_small():
    nv.Mbarriers()[0].init(0)
    # CHECK: TraceError: mbarrier_init.py:[[# @LINE - 1]]: mbarrier.init with 0 arrivals
    # CHECK-NEXT: rule: the count is 1 to 1048575 (PTX ISA, mbarrier.init)
    # CHECK-NEXT: fix: count the arrive operations of one phase


@refused()
def count_too_large():
    nv.Mbarriers()[0].init(1 << 20)
    # CHECK: TraceError: mbarrier_init.py:[[# @LINE - 1]]: mbarrier.init with 1048576 arrivals


@refused()
def count_is_no_integer():
    nv.Mbarriers()[0].init(128 / 32)
    # CHECK: TraceError: mbarrier_init.py:[[# @LINE - 1]]: 4.0 where an integer belongs
    # CHECK-NEXT: rule: indices, coordinates, counts and numbers of bytes are integers
    # CHECK-NEXT: fix: divide integers with //


@refused()
def predicate_is_no_condition():
    nv.Mbarriers()[0].init(1, predicate=nv.thread_id.x)
    # CHECK: TraceError: mbarrier_init.py:[[# @LINE - 1]]: a condition of type i32
    # CHECK-NEXT: rule: a condition, or a predicate, is a bool (i1)
    # CHECK-NEXT: fix: compare it: `x != 0`
