# RUN: %python %s | FileCheck %s

"""Mbarriers(n): one group of n barriers behind the kernel's data; group[i] names one, by an int or a traced index."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    nv.smem((100,), nv.i8)[0] = 1
    group = nv.Mbarriers(4)
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create -> <{{.*}}num_barriers = 4> (line [[# @LINE - 1]])
    assert len(group) == 4
    group[2].arrive()
    # CHECK: %[[TWO:\w+]] = arith.constant 2 : index
    # CHECK: nvgpu.mbarrier.arrive %[[GROUP]][%[[TWO]]]
    t = nv.thread_id.x % 4
    # CHECK: %[[T:\w+]] = arith.index_cast %thread_id_x
    group[t].arrive()
    # CHECK: %[[REST:\w+]] = arith.andi %[[T]],
    # CHECK: %[[INDEX:\w+]] = arith.index_cast %[[REST]] : i32 to index
    # CHECK: nvgpu.mbarrier.arrive %[[GROUP]][%[[INDEX]]]


# 100 bytes of data, then from the next multiple of 8 on the barriers.
# CHECK-LABEL: .entry kernel
# CHECK: mbarrier.arrive.shared.b64 {{.*}}[__dynamic_shmem__0+120]


@refused()
def no_barriers():
    nv.Mbarriers(0)
    # CHECK: TraceError: mbarrier_group.py:[[# @LINE - 1]]: Mbarriers of 0
    # CHECK-NEXT: rule: the number of barriers is a Python int of at least 1
    # CHECK-NEXT: fix:


@refused()
def traced_number():
    nv.Mbarriers(nv.thread_id.x)
    # CHECK: TraceError: mbarrier_group.py:[[# @LINE - 1]]: Mbarriers of


@refused()
def out_of_range():
    nv.Mbarriers(4)[4]
    # CHECK: TraceError: mbarrier_group.py:[[# @LINE - 1]]: mbarrier 4 of a group of 4
    # CHECK-NEXT: rule: a group's barriers are 0 to 3
    # CHECK-NEXT: fix: index with `k % stages`


@refused()
@nv.jit
def on_the_host():
    nv.Mbarriers(4)
    # CHECK: TraceError: mbarrier_group.py:[[# @LINE - 1]]: Mbarriers was used outside of a kernel
    # CHECK-NEXT: rule: device operations are traced inside a function decorated with @nv.kernel(...)
    # CHECK-NEXT: fix:
