# RUN: %python %s | FileCheck %s

"""Operators on accumulators: one op a register; a product in a sum is one fma; vectors are repeated."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    acc = nv.accumulator(64, 8)
    x = acc * 2.0
    # CHECK: nvdsl.ptx = "touch"
    # CHECK-NOT: arith.mulf
    y = x - nv.row_vector(1.0, 0, 64)[:, None]
    # CHECK-COUNT-2: arith.negf
    # CHECK-COUNT-4: llvm.intr.fma(%{{.*}}, %{{.*}}, %{{.*}}) {{.*}}(line [[# @LINE - 2]])
    # CHECK-NOT: llvm.intr.fma
    z = nv.maximum(y / 3.0, 0.0)
    # CHECK-COUNT-4: arith.divf
    # CHECK-COUNT-4: arith.maxnumf
    w = nv.math.exp2_approx(z)
    # CHECK-COUNT-4: nvvm.ex2
    assert type(w) is nv.Accumulator
    b = w > 1.0
    # CHECK-COUNT-4: arith.cmpf ogt
    assert type(b) is nv.Fragment
    nv.sched_barrier(nv.where(b, w, y))
    # CHECK-COUNT-4: arith.select


@refused()
def shapes():
    nv.accumulator(64, 8) + nv.accumulator(64, 16)
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: an operation on Accumulator of shape (64, 8) and Accumulator of shape (64, 16)
    # CHECK-NEXT: rule: operands have one shape, and the same elements in each thread; an extent of 1 is repeated
    # CHECK-NEXT: fix: take accumulators of one shape, and vectors of their rows and columns


@refused()
def flat():
    acc = nv.accumulator(64, 64)
    acc - acc.max(axis=1)
    # CHECK: TraceError: arithmetic.py:[[# @LINE - 1]]: an operation on Accumulator of shape (64, 64) and FragmentVector of shape (64,)
    # CHECK-NEXT: rule: a vector is repeated along the axis that it says: v[:, None] has a value for each row, v[None, :] for each column
    # CHECK-NEXT: fix: write v[:, None] or v[None, :] beside a fragment
