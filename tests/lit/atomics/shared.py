# RUN: %python %s | FileCheck %s

"""Atomics on shared arrays and on tiles, through the swizzle: their scope is the block, in a cluster the cluster."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(ptx=True)
def kernel():
    t = nv.thread_id.x
    counts = nv.smem((128,), nv.i32)
    counts.atomic_add(t, 1)
    # CHECK: gpu.printf "an array of 128 i32"
    # CHECK: llvm.atomicrmw add %{{.*}}, %{{.*}} syncscope("block") monotonic : !llvm.ptr<3>, i32 (line [[# @LINE - 2]])
    tile = nv.smem((8, 32), nv.f32, swizzle=128)
    nv.atomic_add(tile, (t % 8, t % 32), 1.0)
    # CHECK: gpu.printf "a tile of 8x32 f32"
    # CHECK: memref.view {{.*}}nvdsl.tile = array<i64: 128, {{[0-9]+}}>
    # CHECK: llvm.atomicrmw fadd {{.*}} syncscope("block")


# CHECK-LABEL: .entry kernel
# CHECK: atom.relaxed.cta.shared.add.u32
# CHECK: atom.relaxed.cta.shared.add.f32


# CHECK-LABEL: gpu.launch clusters
@show(cluster=2, grid=2)
def in_a_cluster():
    counts = nv.smem((128,), nv.i32)
    counts.atomic_add(nv.thread_id.x, 1)
    # CHECK: llvm.atomicrmw add {{.*}} syncscope("cluster") monotonic : !llvm.ptr<3>, i32
    there = nv.mapa(nv.ops.pointer.address_of(counts), 1)
    nv.ops.atomics.atomic("add", there, 1, nv.i32)
    # CHECK: llvm.atomicrmw add {{.*}} syncscope("cluster") monotonic : !llvm.ptr<7>, i32
