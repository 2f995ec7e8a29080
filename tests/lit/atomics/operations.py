# RUN: %python %s | FileCheck %s

"""nv.atomic_add and its like on an array in global memory: llvm.atomicrmw of the type's kind, relaxed, for the GPU."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: func.func @host
@show(array(nv.i32, 128), array(nv.u32, 8, 4), array(nv.f32, 128), array(nv.bf16, 128), ptx=True)
def kernel(i, u, f, h):
    t = nv.thread_id.x
    # CHECK: %[[T:\w+]] = arith.index_cast %thread_id_x
    i[t] = nv.atomic_add(i, t, 1)
    # CHECK: gpu.printf "an array of 128 i32" {nvdsl.bounds = array<i64: 128>}, %[[T]] : i32
    # CHECK: %[[AT:\w+]] = llvm.getelementptr %{{.*}} : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
    # CHECK: %[[OLD:\w+]] = llvm.atomicrmw add %[[AT]], %{{.*}} syncscope("device") monotonic : !llvm.ptr<1>, i32 (line [[# @LINE - 3]])
    # CHECK: memref.store %[[OLD]]
    i.atomic_sub(t, t)
    # CHECK: llvm.atomicrmw add
    i.atomic_min(t, 3)
    # CHECK: llvm.atomicrmw min
    u.atomic_max((t % 8, 1), 3)
    # CHECK: gpu.printf "an array of 8x4 u32" {nvdsl.bounds = array<i64: 8, 4>}
    # CHECK: llvm.atomicrmw umax
    u.atomic_inc((0, 0), 5)
    # CHECK-NOT: gpu.printf
    # CHECK: llvm.atomicrmw uinc_wrap
    i.atomic_and(t, 1)
    # CHECK: llvm.atomicrmw _and
    i.atomic_or(t, 1)
    # CHECK: llvm.atomicrmw _or
    i.atomic_xor(t, 1)
    # CHECK: llvm.atomicrmw _xor
    f.atomic_add(t, t)
    # CHECK: %[[X:\w+]] = arith.sitofp %[[T]] : i32 to f32
    # CHECK: llvm.atomicrmw fadd %{{.*}}, %[[X]]
    f.atomic_exch(t, 0.5)
    # CHECK: llvm.atomicrmw xchg
    h.atomic_add(t, 1.0)
    # CHECK: llvm.atomicrmw fadd {{.*}} bf16


# CHECK-LABEL: .entry kernel
# CHECK: atom{{(.relaxed.gpu)?}}.global.add.u32
# CHECK: atom{{(.relaxed.gpu)?}}.global.min.s32
# CHECK: atom{{(.relaxed.gpu)?}}.global.max.u32
# CHECK: atom{{(.relaxed.gpu)?}}.global.inc.u32
# CHECK: atom{{(.relaxed.gpu)?}}.global.add.f32
# CHECK: atom{{(.relaxed.gpu)?}}.global.exch.b32
# CHECK: atom{{(.relaxed.gpu)?}}.global.add.noftz.bf16
