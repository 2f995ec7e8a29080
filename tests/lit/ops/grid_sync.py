# RUN: %python %s | FileCheck %s

"""nv.grid_sync: one thread of each block adds to a counter with a release, and polls it with acquires, between barriers."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.u32, 1), grid=8, ptx=True)
def kernel(counter):
    nv.grid_sync(counter)
    # CHECK: gpu.barrier {{.*}}(line [[# @LINE - 1]])
    # CHECK: scf.if
    # CHECK: %[[BEFORE:\w+]] = llvm.atomicrmw add {{.*}} syncscope("device") release : !llvm.ptr<1>, i32
    # CHECK: scf.while
    # CHECK: %[[NOW:\w+]] = llvm.load {{.*}} atomic syncscope("device") acquire
    # CHECK: arith.xori %[[NOW]], %[[BEFORE]]
    # CHECK: scf.condition
    # CHECK: gpu.barrier


# CHECK-LABEL: .entry kernel
# CHECK: bar.sync
# CHECK: atom.release.gpu.global.add.u32
# CHECK: ld.acquire.gpu.global.b32
# CHECK: bar.sync


@refused(array(nv.f32, 1))
def no_integers(counter):
    nv.grid_sync(counter)
    # CHECK: TraceError: grid_sync.py:[[# @LINE - 1]]: a grid's barrier that counts in Array
    # CHECK-NEXT: rule: the counter is the first element of a 1-D array of 32-bit integers in global memory
