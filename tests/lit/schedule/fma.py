# RUN: %python %s | FileCheck %s

"""fma: products of vectors become fused multiply-adds of rows, in the order of K."""

from stages import change

import nvdsl as nv
from nvdsl import schedule as sc

STEPS = sc.simt_steps((32, 64, 16), (8, 32), (8, 8))[:14]

change(sc.matmul(64, 128, 64, nv.f32), STEPS)
# CHECK: AFTER fma()
# CHECK-NOT: vector.contract
# CHECK-DAG: %[[A:.*]] = vector.extract %{{.*}}[0] : f32 from vector<4xf32>
# CHECK: %[[LEFT:.*]] = vector.broadcast %{{.*}} : f32 to vector<4xf32>
# CHECK: %[[ONE:.*]] = math.fma %[[LEFT]], %{{.*}}, %{{.*}} : vector<4xf32>
# CHECK: math.fma %{{.*}}, %{{.*}}, %[[ONE]] : vector<4xf32>

change(sc.matmul(64, 128, 64), sc.simt_steps((32, 64, 16), (8, 32), (8, 8), nv.f16)[:14])
# CHECK: AFTER fma()
# CHECK: arith.extf {{.*}} : vector<4xf16> to vector<4xf32>
# CHECK: math.fma

change(sc.matmul(64, 128, 64, nv.f32), [*STEPS[:8], sc.fma()])
# CHECK: fma.py:[[# @LINE - 1]]: step fma(): no products of vectors
# CHECK-NEXT: rule: it works on vector.contract
# CHECK-NEXT: fix: vectorize() before
