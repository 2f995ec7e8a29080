# RUN: %python %s | FileCheck %s

"""nv.Turns: a named barrier for each member, at which it waits and the one before it arrives."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(block=384)
def kernel():
    turns, me = nv.Turns(3, barrier=4), nv.warpgroup_id()
    # CHECK: %[[ME:\w+]] = nvvm.shfl.sync
    turns.begin(me)
    # CHECK: scf.if
    # CHECK: nvvm.barrier.arrive
    turns.wait(me)
    # CHECK: %[[FOUR:\w+]] = arith.constant 4 : i32
    # CHECK: %[[MINE:\w+]] = arith.addi {{.*}}%[[ME]]
    # CHECK: nvvm.barrier id = %[[MINE]] number_of_threads = %c256
    turns.pass_on(me)
    # CHECK: arith.select
    # CHECK: nvvm.barrier.arrive
    turns.end(me)
    # CHECK: scf.if
    # CHECK: nvvm.barrier id


@refused()
def alone():
    nv.Turns(1)
    # CHECK: TraceError: turns.py:[[# @LINE - 1]]: turns among 1, with named barriers from 1 on


@refused()
def too_many():
    nv.Turns(4, barrier=13)
    # CHECK: TraceError: turns.py:[[# @LINE - 1]]: turns among 4, with named barriers from 13 on
    # CHECK-NEXT: rule: each of at least 2 takes one of the named barriers 1 to 15
