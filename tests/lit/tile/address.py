# RUN: %python %s | FileCheck %s

"""tile.address is a 32-bit address of shared memory, tile.pointer(byte) a pointer, tile.panel(n) what one box fills."""

from show import show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    nv.smem(256, nv.i8)
    tile = nv.smem((64, 64), nv.f16, swizzle=64)
    nv.nanosleep(tile.address)
    # CHECK: %[[START:\w+]] = memref.extract_aligned_pointer_as_index
    # CHECK: %[[BASE:\w+]] = arith.index_cast %[[START]] : index to i32
    # CHECK: %[[OFFSET:\w+]] = arith.constant 512 : i32
    # CHECK: arith.addi %[[BASE]], %[[OFFSET]]
    tile.pointer(64)
    # CHECK: %[[POINTER:\w+]] = llvm.inttoptr %{{.*}} : i64 to !llvm.ptr<3>
    # CHECK: llvm.getelementptr %[[POINTER]][576] {nvdsl.tile = array<i64: 64, 4096>} : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    tile.panel(1)
    # CHECK: %[[PANEL:\w+]] = arith.constant 4608 : index
    # CHECK: memref.view %{{.*}}[%[[PANEL]]][] {nvdsl.tile = array<i64: 64, 4096>} : {{.*}} to memref<64x32xf16, #gpu.address_space<workgroup>>
