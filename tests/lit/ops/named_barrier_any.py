# RUN: %python %s | FileCheck %s

"""named_barrier_any: a named barrier whose threads learn whether a condition holds in any of them."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 128), ptx=True)
def kernel(out):
    t = nv.thread_id.x
    # CHECK: arith.constant 2 : i32
    if nv.named_barrier_any(2, 128, t > 5):
        # CHECK: llvm.inline_asm has_side_effects {{.*}}barrier.cta.red.or.aligned.pred
        # CHECK: scf.if
        out[t] = 1


# CHECK-LABEL: .entry kernel
# CHECK: barrier.cta.red.or.aligned.pred


@refused()
def no_threads():
    nv.named_barrier_any(1, 0, nv.thread_id.x > 5)
    # CHECK: TraceError: named_barrier_any.py:[[# @LINE - 1]]: a named barrier of 0 threads
