# RUN: %python %s | FileCheck %s

"""bufferize: tensors become memrefs, and C is written in place."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("bufferize"))
# CHECK: AFTER bufferize()
# CHECK: func.func @matmul(%{{.*}}: memref<64x64xf16>, %{{.*}}: memref<64x128xf16>, %{{.*}}: memref<64x128xf32>) {
# CHECK-NOT: tensor
# CHECK-NOT: memref.copy
# CHECK: linalg.matmul {{.*}} outs(%{{.*}} : memref<32x64xf32, strided<[128, 1], offset: ?>>)
# CHECK: return
