# RUN: %python %s | FileCheck %s

"""arrive_cluster(rank): mapa gives the same mbarrier in block `rank` of the cluster, and the arrive is a remote one.
With a predicate it is one predicated instruction."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch clusters
@show(ptx=True, grid=2, cluster=2)
def kernel():
    barrier = nv.Mbarriers(1)[0]
    # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
    barrier.arrive_cluster(1)
    # CHECK: %[[ADDRESS:\w+]] = nvgpu.mbarrier.get %[[GROUP]][
    # CHECK: %[[HERE:\w+]] = llvm.inttoptr %[[ADDRESS]] : i64 to !llvm.ptr<3>
    # CHECK: %[[RANK:\w+]] = arith.constant 1 : i32
    # CHECK: %[[THERE:\w+]] = nvvm.mapa %[[HERE]], %[[RANK]] : !llvm.ptr<3> -> !llvm.ptr<7>
    # CHECK: nvvm.mbarrier.arrive %[[THERE]] {scope = #nvvm.mem_scope<cluster>} : {{.*}}(line [[# @LINE - 5]])
    t = nv.thread_id.x
    barrier.arrive_cluster(t % 2, predicate=t < 2)
    # CHECK: %[[WHO:\w+]] = arith.cmpi slt
    # CHECK-NEXT: scf.if %[[WHO]] {
    # CHECK: nvvm.mapa
    # CHECK: nvvm.mbarrier.arrive
    # CHECK-NEXT: } {nvdsl.predicated}
    barrier.arrive_cluster(0, txcount=512)
    # CHECK: %[[LEADER:\w+]] = nvvm.mapa
    # CHECK: %[[BYTES:\w+]] = arith.constant 512 : i32
    # CHECK: nvvm.mbarrier.arrive.expect_tx %[[LEADER]], %[[BYTES]] {scope = #nvvm.mem_scope<cluster>}
    barrier.arrive_cluster(0, t < 3, relaxed=True)
    barrier.arrive_cluster(0, t < 4, txcount=256)


# CHECK-LABEL: .entry kernel
# CHECK: mapa.shared::cluster.u64 [[THERE:%rd\w+]], {{.*}}, 1;
# CHECK: mbarrier.arrive.release.cluster.shared::cluster.b64 _, [[[THERE]]]
# CHECK-NOT: bra
# CHECK: mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%rd
# CHECK: @%p{{[0-9]+}} mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%rd{{[0-9]+}}];
# CHECK: @%p{{[0-9]+}} mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%rd{{[0-9]+}}], %r{{[0-9]+}};


@refused(grid=2, cluster=2)
def not_there():
    nv.Mbarriers(1)[0].arrive_cluster(2)
    # CHECK: TraceError: arrive_cluster.py:[[# @LINE - 1]]: block 2 of a cluster of 2
    # CHECK-NEXT: rule: the blocks of this cluster have the ranks 0 to 1 (PTX ISA, %cluster_ctarank)
    # CHECK-NEXT: fix: launch with a larger cluster=


@refused(grid=2, cluster=2)
def negative_bytes():
    nv.Mbarriers(1)[0].arrive_cluster(0, txcount=-16)
    # CHECK: TraceError: arrive_cluster.py:[[# @LINE - 1]]: an mbarrier that expects -16 bytes
