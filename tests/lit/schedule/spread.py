# RUN: %python %s | FileCheck %s

"""spread: each tile of a loop over tiles is split among threads; each has four neighbours in a row."""

from stages import change

import nvdsl as nv
from nvdsl import schedule as sc

STEPS = sc.simt_steps((32, 64, 16), (8, 32), (8, 8))[:8]

change(sc.matmul(64, 128, 64, nv.f32), STEPS)
# CHECK: AFTER spread(8, 8)
# CHECK: scf.for
# CHECK: scf.for
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (8, 8) {
# CHECK: linalg.fill {{.*}} outs(%{{.*}} : memref<1x4xf32
# CHECK: } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
# CHECK: scf.forall (%{{.*}}, %{{.*}}) in (8, 8) {
# CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : memref<1x4xf32, {{.*}}>, memref<4x4xf32, {{.*}}>) outs(%{{.*}} : memref<1x4xf32

change(sc.matmul(64, 128, 64, nv.f32), [*STEPS[:-1], sc.spread(3, 8)])
# CHECK: spread.py:[[# @LINE - 1]]: step spread(3, 8): tiles of 3 x 8 for threads, of 8 x 32
