# RUN: %python %s | FileCheck %s

"""tile_threads: loops over single elements for each thread, without tensor cores."""

from stages import change

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), sc.fma_steps((32, 64, 32), (8, 4))[:5])
# CHECK: AFTER tile_threads(8, 4)
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (8, 4) {
# CHECK: memref.store %cst
# CHECK: } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (8, 4) {
# CHECK-COUNT-3: scf.for
# CHECK: arith.mulf
# CHECK-NEXT: arith.addf
# CHECK: memref.store
