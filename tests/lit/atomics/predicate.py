# RUN: %python %s | FileCheck %s

"""predicate= of an atomic: one predicated red; a branch where the ISA has none."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 128), array(nv.f32, 128), array(nv.bf16, 128), ptx=True)
def kernel(x, f, h):
    t = nv.thread_id.x
    first = t == 0
    # CHECK: %[[FIRST:\w+]] = arith.cmpi eq
    f.atomic_add(t, 1.0, predicate=first)
    # CHECK: scf.if %[[FIRST]] {
    # CHECK: gpu.printf "an array of 128 f32"
    # CHECK: llvm.atomicrmw fadd
    # CHECK-NEXT: } {nvdsl.predicated}
    x.atomic_max(t, 1, order="release", predicate=first)
    h.atomic_add(t, 1.0, predicate=first)


# CHECK-LABEL: .entry kernel
# CHECK-NOT: bra
# CHECK: @%p{{[0-9]+}} red.relaxed.gpu.global.add.f32 [%rd{{[0-9]+}}], %r{{[0-9]+}};
# CHECK: @%p{{[0-9]+}} red.release.gpu.global.max.s32 [%rd{{[0-9]+}}], %r{{[0-9]+}};
# CHECK: @%p{{[0-9]+}} red.relaxed.gpu.global.add.noftz.bf16 [%rd{{[0-9]+}}], %rs{{[0-9]+}};


# CHECK-LABEL: gpu.launch
@show(array(nv.i32, 128), ptx=True)
def acquires(x):
    x.atomic_add(0, 1, order="acquire", predicate=nv.thread_id.x == 0)
    # CHECK: scf.if


# CHECK-LABEL: .entry kernel
# CHECK: bra
# CHECK: atom.acquire.gpu.global.add.u32
