# RUN: %python %s | FileCheck %s

"""rows=: a tensor map of the first rows of a tile. The box in shared memory keeps the tile's type; how many rows are
copied is a value of the host function."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @gemm
@show(array(nv.f16, 250, 256), 24)
@nv.jit
def gemm(a, rows):
    tma = nv.TMA(a, tile=(64, 64), swizzle=128, rows=rows)
    # CHECK: %[[ROWS:\w+]] = arith.index_cast %arg1 : i32 to index
    # CHECK: nvgpu.tma.create.descriptor {{.*}} box[%[[ROWS]], %{{.*}}] : {{.*}} -> <tensor = memref<64x64xf16, 3>,

    @nv.kernel(grid=1, block=128)
    def kernel():
        tile = nv.smem((64, 64), nv.f16, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        # CHECK: %[[BYTES:\w+]] = arith.muli %arg1, %
        full.arrive_expect_tx(tma.bytes)
        # CHECK: nvgpu.mbarrier.arrive.expect_tx
        tma.load(tile, full, (192, 0))
        # CHECK: nvgpu.tma.async.load {{.*}} -> memref<64x64xf16, #gpu.address_space<workgroup>>

    kernel()


@refused(array(nv.f16, 256, 256))
@nv.jit
def more_than_the_tile_has(a):
    nv.TMA(a, tile=(64, 64), swizzle=128, rows=65)
    # CHECK: TraceError: rows.py:[[# @LINE - 1]]: TMA with rows=65 and a tile of shape (64, 64)
    # CHECK-NEXT: rule: of a tile's rows, its last axis but one, 1 or more are copied
    # CHECK-NEXT: fix: pass 1 to 64, or leave it out: all are copied


@refused(array(nv.f16, 256))
@nv.jit
def a_line_has_no_rows(a):
    nv.TMA(a, tile=64, rows=1)
    # CHECK: TraceError: rows.py:[[# @LINE - 1]]: TMA with rows=1 and a tile of shape (64,)
