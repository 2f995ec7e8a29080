# RUN: %python %s | FileCheck %s

"""x.store(key, value, predicate=...): one predicated st, of a number or of a vector; a branch for single bytes."""

from show import array, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 512), array(nv.f16, 512), array(nv.f64, 128), ptx=True)
def kernel(x, h, d):
    t = nv.thread_id.x
    p = x[t] > 1.0
    # CHECK: %[[P:\w+]] = arith.cmpf ogt
    x.store(t, t, predicate=p)
    # CHECK: %[[VALUE:\w+]] = arith.sitofp
    # CHECK: scf.if %[[P]] {
    # CHECK: gpu.printf "an array of 512 f32"
    # CHECK: llvm.store %[[VALUE]], %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr<1> (line [[# @LINE - 4]])
    # CHECK: } {nvdsl.predicated}
    x.store(4 * t, x.vector(4 * t, 4), predicate=p)
    h.store(t, 1.0, predicate=p)
    d.store(t, 1.0, predicate=p)
    tile = nv.smem((16, 64), nv.f16, swizzle=128)
    tile.store((t % 16, t // 16 * 8), h.vector(0, 8), predicate=p)
    x.store(t, 2.0)


# CHECK-LABEL: .entry kernel
# CHECK-NOT: bra
# CHECK: @%p{{[0-9]+}} st.global.b32 [%rd{{[0-9]+}}], %r{{[0-9]+}};
# CHECK: @%p{{[0-9]+}} st.global.v4.b32 [%rd{{[0-9]+}}], {%r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}};
# CHECK: @%p{{[0-9]+}} st.global.b16
# CHECK: @%p{{[0-9]+}} st.global.b64
# CHECK: @%p{{[0-9]+}} st.shared.v4.b32
# CHECK: st.global.b32


# CHECK-LABEL: gpu.launch
@show(array(nv.u8, 512), ptx=True)
def bytes(x):
    x.store(nv.thread_id.x, 1, predicate=x[0] > 3)
    # CHECK: scf.if


# CHECK-LABEL: .entry kernel
# CHECK: bra
