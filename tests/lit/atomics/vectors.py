# RUN: %python %s | FileCheck %s

"""A vector in the place of an atomic's value: one instruction for neighbouring elements, where PTX has one."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 8, 64), array(nv.f16, 256), ptx=True, block=16)
def kernel(f, h):
    t = nv.thread_id.x
    f.atomic_add((1, 4 * t), f.vector((0, 4 * t), 4))
    # CHECK: gpu.printf "an array of 8x64 f32" {nvdsl.bounds = array<i64: 8, 61>}
    # CHECK: llvm.inline_asm has_side_effects {{.*}}nvdsl.ptx = "atom"{{.*}}(line [[# @LINE - 2]])
    old = h.atomic_max(8 * t, h.vector(8 * t, 8))
    h.store_vector(old, 8 * t)
    tile = nv.smem((8, 64), nv.f16, swizzle=128)
    tile.atomic_add((t % 8, 2 * t), h.vector(2 * t, 2))


# CHECK-LABEL: .entry kernel
# CHECK: atom.relaxed.gpu.global.add.v4.f32 {%r{{.*}}}, [%rd{{[0-9]+}}], {%r
# CHECK: atom.relaxed.gpu.global.max.noftz.v8.f16
# CHECK: atom.relaxed.cta.shared.add.noftz.f16x2


@refused(array(nv.i32, 64))
def integers(x):
    x.atomic_add(0, x.vector(0, 4))
    # CHECK: TraceError: vectors.py:[[# @LINE - 1]]: atomic_add of 4 i32 in global memory
    # CHECK-NEXT: rule: in global memory one instruction adds 2 or 4 f32, or adds 2, 4 or 8 f16 or bf16, or takes their


@refused(array(nv.f32, 64))
def shared(x):
    nv.smem((64,), nv.f32).atomic_add(0, x.vector(0, 4))
    # CHECK: TraceError: vectors.py:[[# @LINE - 1]]: atomic_add of 4 f32 in shared memory


@refused(array(nv.f32, 64))
def misaligned(x):
    x.atomic_add(2, x.vector(0, 4))
    # CHECK: TraceError: vectors.py:[[# @LINE - 1]]: a vector access of 4 x f32 (16 bytes) at byte 8: no multiple of 16
