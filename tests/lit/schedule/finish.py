# RUN: %python %s | FileCheck %s

"""finish: tiles are parts of the dynamic shared memory, and vectors are loaded whole."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), [*until("wmma"), sc.finish()])
# CHECK: AFTER finish()
# CHECK: gpu.launch {{.*}} dynamic_shared_memory_size %c7168_i32
# CHECK: %[[BLOCK:.*]] = gpu.dynamic_shared_memory
# CHECK: memref.view %[[BLOCK]][%c0][] : {{.*}} to memref<32x72xf16, #gpu.address_space<workgroup>>
# CHECK: memref.view %[[BLOCK]][%c4608][] : {{.*}} to memref<32x40xf16, #gpu.address_space<workgroup>>
# CHECK-NOT: affine.apply
# CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<64x64xf16>, vector<8xf16>
# CHECK: vector.store {{.*}} {alignment = 16 : i64}

change(sc.matmul(64, 128, 64), [*until("copies"), sc.finish()])
# CHECK: finish.py:[[# @LINE - 1]]: step finish(): a {{.*}} is left
# CHECK-NEXT: rule: a schedule makes one launch, and leaves nothing that is not mapped to threads
