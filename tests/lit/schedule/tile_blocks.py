# RUN: %python %s | FileCheck %s

"""tile_blocks: a tile of C for each block, and steps of K."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("tile_blocks"))
# CHECK: BEFORE tile_blocks(32, 64, 32)
# CHECK: linalg.fill {{.*}} outs(%[[C:.*]] : tensor<64x128xf32>)
# CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<64x64xf16>, tensor<64x128xf16>)
# CHECK: AFTER
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (2, 2)
# CHECK: linalg.fill {{.*}} -> tensor<32x64xf32>
# CHECK: scf.for %{{.*}} = %c0 to %c64 step %c32
# CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<32x32xf16>, tensor<32x64xf16>)
# CHECK: mapping = [#gpu.block<y>, #gpu.block<x>]

change(sc.matmul(60, 128, 64), until("tile_blocks"))
# CHECK: BEFORE
# CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<60x64xf16>, tensor<64x128xf16>)
# CHECK: AFTER
# CHECK: func.func @matmul(%{{.*}}: tensor<64x64xf16>,{{.*}}nvdsl.extents = [array<i64: 60, 64>, array<i64: 64, 128>, array<i64: 60, 128>]
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (2, 2)
