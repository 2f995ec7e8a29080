# RUN: %python %s | FileCheck %s

"""pad: rows of tiles in shared memory become longer."""

from stages import change, until

from nvdsl import schedule as sc

change(sc.matmul(64, 128, 64), until("pad"))
# CHECK: AFTER pad(8)
# CHECK: %[[WIDE:.*]] = memref.alloc() : memref<32x72xf16, #gpu.address_space<workgroup>>
# CHECK: memref.subview %[[WIDE]][0, 0] [32, 64] [1, 1] {{.*}} to memref<32x64xf16, strided<[72, 1]>, #gpu.address_space<workgroup>>
# CHECK: memref.alloc() : memref<32x40xf16, #gpu.address_space<workgroup>>

change(sc.matmul(64, 128, 64), [*until("merge_barriers"), sc.pad(4)])
# CHECK: pad.py:[[# @LINE - 1]]: step pad(4): rows of memref<32x64xf16, #gpu.address_space<workgroup>> longer by 4 elements
# CHECK-NEXT: rule: rows start at multiples of 16 bytes, for wide copies and for tensor cores
# CHECK-NEXT: fix: pad by a multiple of 8
