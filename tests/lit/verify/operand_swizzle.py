# RUN: %python %s | FileCheck %s

"""A tile that wgmma reads with another swizzle than TMA wrote it with, or that starts amid the swizzle's pattern."""

from show import array, refused

import nvdsl as nv
from nvdsl.layout import Operand, TileLayout
from nvdsl.mlir.dialects import llvm, nvgpu
from nvdsl.ops import tma, wgmma
from nvdsl.ops.smem import get_dynamic_shared_memory, smem_address


def multiply(read, start, stride=None):
    @nv.jit
    def host(x):
        x_tma = tma.TMA([64, 64], x.type, swizzle=nvgpu.TensorMapSwizzleKind.SWIZZLE_128B)
        x_tma.create_descriptor(x)

        @nv.kernel(grid=1, block=128)
        def kernel():
            nv.smem((16384,), nv.u8)
            full = nv.Mbarriers(1, arrivals=1)[0]
            if nv.thread_id.x == 0:
                full.arrive_expect_tx(8192)
                x_tma.load(get_dynamic_shared_memory((64, 64), nv.f16.ir, start), full, (0, 0))
            full.wait(0)
            desc = wgmma.descriptor(smem_address(start), Operand(TileLayout.of(64, 64, 2, read), "k"))
            if stride is not None:
                desc = desc ^ ((1024 ^ stride) >> 4 << 32)
            sums = llvm.mlir_zero(wgmma.accumulator_type(64, nv.f32))
            wgmma.wgmma_fence()
            wgmma.mma_async(sums, desc, desc, n=64, a_dtype=nv.f16, b_dtype=nv.f16, d_dtype=nv.f32)

        kernel()

    return host


X = array(nv.f16, 64, 64)
refused(X)(multiply(read=64, start=0))
# CHECK: VerifyError: operand_swizzle.py:[[# @LINE - 9]]: operand A is read with the 64-byte swizzle and TMA wrote it with
# CHECK-SAME: the 128-byte swizzle (load at line [[# @LINE - 17]])
# CHECK-NEXT: rule: wgmma finds an operand's elements where its descriptor says, TMA puts them where the tensor map says
# CHECK-NEXT: fix: give the tensor map and the tile one swizzle

refused(X)(multiply(read=128, start=512))
# CHECK: VerifyError: operand_swizzle.py:[[# @LINE - 15]]: operand A lies in a box at byte 512 of shared memory, 512 bytes
# CHECK-SAME: past a multiple of 1,024
# CHECK: fix: align a tile with the 128-byte swizzle to 1,024 bytes, as nv.smem does

refused(X)(multiply(read=128, start=0, stride=512))
# CHECK: VerifyError: operand_swizzle.py:[[# @LINE - 20]]: operand A has a stride byte offset of 512, and 8 rows of 128
# CHECK-SAME: bytes are 1,024

refused(X)(multiply(read=128, start=64))
# CHECK: VerifyError: operand_swizzle.py:[[# @LINE - 31]]: a TMA box at byte 64 of shared memory
# CHECK-NEXT: rule: a box starts at a multiple of 128 bytes
