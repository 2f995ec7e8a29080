# RUN: %python %s | FileCheck %s

"""recomputed: no instruction; what depends on the value is computed where it is written."""

from show import show

import nvdsl as nv
from nvdsl.ops.order import recomputed, recomputing


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    x = nv.smem(256, nv.i32)
    number = nv.warpgroup_id()
    for i in nv.range(4):
        x[recomputed(number)] = i
    # CHECK: scf.for
    # CHECK: llvm.inline_asm has_side_effects asm_dialect = att {nvdsl.ptx = "touch"} "", "=r,0"
    # CHECK: memref.store
    with recomputing():
        x[nv.thread_id.x] = 1
    # CHECK: %[[T:.*]] = gpu.thread_id  x
    # CHECK: llvm.inline_asm has_side_effects asm_dialect = att {nvdsl.ptx = "touch"} "", "=r,0"
    # CHECK: memref.store
    x[nv.thread_id.x] = 1
    # CHECK: gpu.thread_id  x
    # CHECK-NOT: inline_asm
    # CHECK: memref.store
