# RUN: %python %s | FileCheck %s

"""tile.at(rank), array.at(rank): elements, vectors and st.async in the shared memory of another block."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(grid=2, cluster=2, ptx=True)
def kernel():
    t = nv.thread_id.x
    tile, line = nv.smem((32, 64), nv.f16, swizzle=128), nv.smem((512,), nv.f32)
    came = nv.Mbarriers(1, arrivals=1, sync=False)[0]
    nv.cluster_sync()
    peer = tile.at(1 - nv.cluster_rank())
    v = peer.vector((t % 32, 8), 8)
    # CHECK: %[[AT:\w+]] = nvvm.mapa %{{.*}}, %{{.*}} : !llvm.ptr<3> -> !llvm.ptr<7> (line [[# @LINE - 1]])
    # CHECK: llvm.load %[[AT]] {alignment = 16 : i64} : !llvm.ptr<7> -> vector<8xf16> (line [[# @LINE - 2]])
    nv.cluster_sync()
    line.at(1)[t] = v[0]
    # CHECK: llvm.store %{{.*}}, %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr<7> (line [[# @LINE - 1]])
    came.arrive_expect_tx(16 * 128, t == 0)
    nv.cluster_sync()
    line.at(1 - nv.cluster_rank()).store_async(v[:4].to(nv.f32), t * 4, came)
    # CHECK: nvvm.mapa
    # CHECK: nvvm.mapa
    # CHECK: llvm.inline_asm {{.*}}{nvdsl.bytes = 16 : i64, nvdsl.ptx = "st_async"} "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [$0], {$1, $2, $3, $4}, [$5];"
    came.wait(0)
    nv.cluster_sync()


# CHECK-LABEL: .entry kernel
# CHECK: ld.shared::cluster.v4.b32
# CHECK: st.shared::cluster.b32
# CHECK: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32


@refused(cluster=2, grid=2)
def no_such_block():
    nv.smem((32, 64), nv.f16).at(2)
    # CHECK: TraceError: at.py:[[# @LINE - 1]]: block 2 of a cluster of 2
    # CHECK-NEXT: rule: the blocks of this cluster have the ranks 0 to 1


@refused(array(nv.f16, 64), cluster=2, grid=2)
def global_memory(x):
    x.at(1)
    # CHECK: TraceError: at.py:[[# @LINE - 1]]: Array(shape=(64{{.*}}.at(rank), in global memory
    # CHECK-NEXT: rule: each block of the cluster has shared memory of its own


@refused(cluster=2, grid=2)
def too_small():
    bars = nv.Mbarriers(1, arrivals=1)
    nv.smem((64,), nv.f16).at(1).store_async(1.0, 0, bars[0])
    # CHECK: TraceError: at.py:[[# @LINE - 1]]: store_async of 1 x f16 (2 bytes)
    # CHECK-NEXT: rule: st.async stores 4, 8 or 16 bytes
