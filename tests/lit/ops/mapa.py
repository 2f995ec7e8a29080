# RUN: %python %s | FileCheck %s

"""mapa: the address of another block's shared memory that corresponds to one here."""

from show import refused, show

import nvdsl as nv
from nvdsl.mlir.dialects import llvm


# CHECK-LABEL: gpu.launch
@show(ptx=True, grid=4, cluster=4)
def kernel():
    tile = nv.smem((8, 8), nv.i32)
    there = nv.mapa(tile.pointer(64), nv.cluster_rank() ^ 1)
    # CHECK: %[[HERE:\w+]] = llvm.getelementptr %{{.*}}[64] {nvdsl.tile = array<i64: 0, 256>} : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    # CHECK: %[[RANK:\w+]] = arith.xori
    # CHECK: %[[THERE:\w+]] = nvvm.mapa %[[HERE]], %[[RANK]] : !llvm.ptr<3> -> !llvm.ptr<7> (line [[# @LINE - 3]])
    llvm.store(nv.i32(1), there)


# CHECK-LABEL: .entry kernel
# CHECK: mapa.shared::cluster.u64
# CHECK: st.shared::cluster


@refused(grid=4, cluster=4)
def not_there():
    nv.mapa(nv.smem((8, 8), nv.i32).pointer(), 4)
    # CHECK: TraceError: mapa.py:[[# @LINE - 1]]: block 4 of a cluster of 4
    # CHECK-NEXT: rule: the blocks of this cluster have the ranks 0 to 3
