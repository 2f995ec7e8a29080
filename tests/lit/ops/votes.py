# RUN: %python %s | FileCheck %s

"""vote_any, vote_all and ballot: vote.sync of a condition; a bool, a bool, and 32 of them as an i32."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 128), ptx=True)
def kernel(out):
    t = nv.thread_id.x
    odd = t % 2 == 1
    # CHECK: %[[ODD:\w+]] = arith.cmpi eq
    if nv.vote_any(odd):
        # CHECK: %[[ANY:\w+]] = nvvm.vote.sync any %{{.*}}, %[[ODD]] -> i1 (line [[# @LINE - 1]])
        # CHECK: scf.if %[[ANY]]
        out[t] = 1
    if nv.vote_all(odd):
        # CHECK: nvvm.vote.sync all %{{.*}}, %[[ODD]] -> i1
        out[t] = 2
    out[t] = nv.ballot(odd)
    # CHECK: %[[LANES:\w+]] = nvvm.vote.sync ballot %{{.*}}, %[[ODD]] -> i32
    # CHECK: memref.store %[[LANES]],


# CHECK-LABEL: .entry kernel
# CHECK: vote.sync.any.pred
# CHECK: vote.sync.all.pred
# CHECK: vote.sync.ballot.b32


@refused()
def no_condition():
    nv.ballot(nv.thread_id.x)
    # CHECK: TraceError: votes.py:[[# @LINE - 1]]: a condition of type i32
    # CHECK-NEXT: rule: a condition, or a predicate, is a bool (i1)
    # CHECK-NEXT: fix: compare it: `x != 0`
