# RUN: %python %s | FileCheck %s

"""persistent: a launch of some blocks, each of which walks over tiles, in groups of rows of tiles."""

from stages import change

from nvdsl import schedule as sc

front = [sc.tile_blocks(128, 64, 64), sc.bufferize(), sc.stage()]
change(sc.matmul(640, 256, 256), [*front, sc.persistent(6, 2)])
# CHECK: BEFORE persistent(6, 2)
# CHECK: scf.forall (%[[ROW:\w+]], %[[COLUMN:\w+]]) in (5, 4)
# CHECK: scf.for
# CHECK: AFTER persistent(6, 2)
# CHECK: gpu.launch {{.*}} in (%{{.*}} = %c6{{.*}}, %{{.*}} = %c1{{.*}}, %{{.*}} = %c1{{.*}}) threads
# CHECK: %[[BLOCK:.*]] = gpu.block_id x
# CHECK: scf.for %[[TILE:\w+]] = %[[BLOCK]] to %c20{{.*}} step %c6
# CHECK: %[[WHOLE:.*]] = arith.remui %[[TILE]], %c20
# CHECK: %[[GROUP:.*]] = arith.divui %[[WHOLE]], %c8
# CHECK: %[[FIRST:.*]] = arith.muli %[[GROUP]], %c2
# CHECK: %[[WITHIN:.*]] = arith.remui %[[WHOLE]], %c8
# CHECK: %[[LEFT:.*]] = arith.subi %c5{{.*}}, %[[FIRST]]
# CHECK: %[[HEIGHT:.*]] = arith.minsi %{{.*}}, %[[LEFT]]
# CHECK: arith.divui %[[WITHIN]], %[[HEIGHT]]
# CHECK: arith.remui %[[WITHIN]], %[[HEIGHT]]
# CHECK: linalg.fill
# CHECK: scf.for
# CHECK: linalg.matmul
# CHECK: {nvdsl.tiles}

change(sc.matmul(256, 128, 64, batch=3), [*front, sc.persistent()])
# CHECK: AFTER persistent()
# CHECK: scf.for %[[TILE:\w+]] = %{{.*}} to %c12{{.*}} step %c12
# CHECK: arith.divui %[[TILE]], %c4

change(sc.matmul(256, 128, 64), [*front, sc.persistent(0)])
# CHECK: persistent.py:[[# @LINE - 1]]: step persistent(0): 0 blocks, groups of 8 rows
# CHECK-NEXT: rule: there is one of each or more
# CHECK-NEXT: fix: persistent(132, 8)
