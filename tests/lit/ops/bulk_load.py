# RUN: %python %s | FileCheck %s

"""bulk_load: contiguous bytes from a global array, or a view of one, to a shared one; they complete on an mbarrier."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch clusters
@show(array(nv.f32, 256), ptx=True, grid=2, cluster=2)
def kernel(x):
    to = nv.smem((64,), nv.f32)
    barrier = nv.Mbarriers(1)[0]
    nv.bulk_load(to, x, 256, barrier)
    # CHECK: %[[TO:\w+]] = llvm.addrspacecast %{{.*}} : !llvm.ptr<3> to !llvm.ptr<7>
    # CHECK: %[[FROM:\w+]] = llvm.inttoptr %{{.*}} : i64 to !llvm.ptr<1>
    # CHECK: %[[BARRIER:\w+]] = llvm.inttoptr %{{.*}} : i64 to !llvm.ptr<3>
    # CHECK: %[[BYTES:\w+]] = arith.constant 256 : i32
    # CHECK: nvvm.cp.async.bulk.shared.cluster.global %[[TO]], %[[FROM]], %[[BARRIER]], %[[BYTES]] : {{.*}}(line [[# @LINE - 5]])
    nv.bulk_load(to[16:48], x[64:96], 128, barrier, multicast_mask=3)
    # CHECK: nvvm.cp.async.bulk.shared.cluster.global {{.*}} multicast_mask = %
    nv.bulk_load(to, x.view((nv.block_id.x * 64,), (64,)), nv.block_dim.x * 2, barrier)
    # CHECK: nvvm.cp.async.bulk.shared.cluster.global
    nv.bulk_load(to, x, 256, barrier, l2_hint=nv.L2_EVICT_FIRST)
    # CHECK: %[[FIRST:\w+]] = arith.constant 1364590687093260288 : i64
    # CHECK: nvvm.cp.async.bulk.shared.cluster.global {{.*}} l2_cache_hint = %[[FIRST]]


# CHECK-LABEL: .entry kernel
# CHECK: ld.param.b64 [[X:%rd\w+]], [kernel_param_0];
# CHECK: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd{{.*}}], [[[X]]], %r{{.*}}, [__dynamic_shmem__0+256];
# The views start 64 bytes and 256 bytes after their arrays,
# CHECK: add.s64 [[BLOCK:%rd\w+]], {{.*}}, 64;
# CHECK: .multicast::cluster [%rd{{.*}}], [[[X]]+256],
# or where the block's number says.
# CHECK: add.s64 [[START:%rd\w+]], [[X]], %rd
# CHECK: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd{{.*}}], [[[START]]],
# CHECK: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint


@refused(array(nv.f32, 256))
def part_of_16_bytes(x):
    nv.bulk_load(nv.smem((64,), nv.f32), x, 24, nv.Mbarriers(1)[0])
    # CHECK: TraceError: bulk_load.py:[[# @LINE - 1]]: bulk copy of 24 bytes
    # CHECK-NEXT: rule: the size is a positive multiple of 16 bytes (PTX ISA, cp.async.bulk)
    # CHECK-NEXT: fix: pad the copy to 16 bytes


@refused(array(nv.f32, 256))
def swapped(x):
    nv.bulk_load(x, nv.smem((64,), nv.f32), 64, nv.Mbarriers(1)[0])
    # CHECK: TraceError: bulk_load.py:[[# @LINE - 1]]: bulk copy with Array(shape=(256,), dtype=f32) in the place of shared memory
    # CHECK-NEXT: rule: a bulk copy has one array in shared and one in global memory (PTX ISA, cp.async.bulk)
    # CHECK-NEXT: fix: bulk_load(shared, global, ...)


@refused(array(nv.f32, 256))
def tile(x):
    nv.bulk_load(nv.smem((8, 8), nv.f32), x, 64, nv.Mbarriers(1)[0])
    # CHECK: TraceError: bulk_load.py:[[# @LINE - 1]]: bulk copy with Tile((8, 8), f32, swizzle=0) in the place of shared


@refused(array(nv.f32, 256))
def group_for_an_mbarrier(x):
    nv.bulk_load(nv.smem((64,), nv.f32), x, 64, nv.Mbarriers(1))
    # CHECK: TraceError: bulk_load.py:[[# @LINE - 1]]: a Mbarriers in the place of an mbarrier


@refused(array(nv.f32, 256))
def mask_without_cluster(x):
    nv.bulk_load(nv.smem((64,), nv.f32), x, 64, nv.Mbarriers(1)[0], multicast_mask=2)
    # CHECK: TraceError: bulk_load.py:[[# @LINE - 1]]: multicast_mask=0b10 in a cluster of 1 blocks
