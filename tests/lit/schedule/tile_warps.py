# RUN: %python %s | FileCheck %s

"""tile_warps: a tile of C for each warp, of the fill and of the product."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("tile_warps"))
# CHECK: AFTER tile_warps(32, 32)
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (1, 2) {
# CHECK: linalg.fill
# CHECK: } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}
# CHECK: scf.for
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (1, 2) {
# CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : memref<32x32xf16, strided<[40, 1]>, #gpu.address_space<workgroup>>
# CHECK: } {mapping = [#gpu.warp<linear_dim_1>, #gpu.warp<linear_dim_0>]}

change(sc.matmul(64, 128, 64), [*until("pad"), sc.tile_warps(32, 48)])
# CHECK: tile_warps.py:[[# @LINE - 1]]: step tile_warps(32, 48): tiles of 32 x 48 for warps, of 32 x 64
