# RUN: %python %s | FileCheck %s

"""Parts of a fragment: the same registers; of others, a line for each row is printed by one thread."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    acc = nv.accumulator(64, 16)
    gate, up = acc[:, 0:8], acc[:, 8:16]
    # CHECK-COUNT-8: llvm.extractvalue
    assert type(gate) is nv.Accumulator and gate.shape == (64, 8)
    nv.sched_barrier(gate * up)
    # CHECK-COUNT-4: arith.mulf
    even = acc[:, 0::2]
    assert even.shape == (64, 8)
    print("x", acc[0:2, 0:3])
    # CHECK-COUNT-3: nvvm.shfl.sync idx
    # CHECK: scf.if
    # CHECK: gpu.printf "x [0, 0:3] [%g, %g, %g]\0A"
    # CHECK: scf.if
    # CHECK: gpu.printf "x [1, 0:3] [%g, %g, %g]\0A"
    # CHECK-NOT: gpu.printf


@refused()
def computing():
    nv.accumulator(64, 16)[0:8, 0:8].store(nv.smem((8, 8), nv.f32))
    # CHECK: TraceError: parts.py:[[# @LINE - 1]]: .store of 8 x 8 elements of a fragment
    # CHECK-NEXT: rule: some threads have some of them: they can be printed.
