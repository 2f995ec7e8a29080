# RUN: %python %s | FileCheck %s

"""nv.TMA: one tensor map whose box is one panel of the tile; a tile wider than its swizzle is loaded in several boxes."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: func.func @gemm
@show(array(nv.f16, 256, 256))
@nv.jit
def gemm(a):
    tma = nv.TMA(a, tile=(64, 128), swizzle=128)
    assert tma.box == (64, 64) and tma.bytes == 16384
    # CHECK: %[[MAP:\w+]] = nvgpu.tma.create.descriptor {{.*}} -> <tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = l2promo_128b, oob = zero, interleave = none> (line [[# @LINE - 2]])

    @nv.kernel(grid=1, block=128)
    def kernel():
        tile = nv.smem((64, 128), nv.f16, swizzle=128)
        full = nv.Mbarriers(1, arrivals=1)[0]
        row = nv.block_id.x
        # CHECK: %[[GROUP:\w+]] = nvgpu.mbarrier.create
        tma.load(tile, full, (row, 32))
        # CHECK: %[[LEFT:\w+]] = memref.view {{.*}} to memref<64x64xf16, #gpu.address_space<workgroup>>
        # CHECK: %[[RIGHT:\w+]] = memref.view
        # CHECK: %[[COL:\w+]] = arith.constant 32 : index
        # CHECK: nvgpu.tma.async.load %[[MAP]][%[[COL]], %{{.*}}], %[[GROUP]][%{{.*}}] to %[[LEFT]] : {{.*}}(line [[# @LINE - 4]])
        # CHECK: %[[NEXT:\w+]] = arith.constant 96 : index
        # CHECK: nvgpu.tma.async.load %[[MAP]][%[[NEXT]], %{{.*}}], %[[GROUP]][%{{.*}}] to %[[RIGHT]] :
        # CHECK-NOT: nvgpu.tma.async.load
        # CHECK: gpu.terminator

    kernel()


# A narrow tile is one box, whatever its swizzle; three axes are one box, too.
# CHECK-LABEL: func.func @narrow
@show(array(nv.f32, 8, 32, 64))
@nv.jit
def narrow(a):
    tma = nv.TMA(a, tile=(2, 8, 32), swizzle=128)
    assert tma.box == (2, 8, 32)

    @nv.kernel(grid=1, block=128)
    def kernel():
        tile = nv.smem((16, 32), nv.f32, swizzle=128)
        tma.load(tile, nv.Mbarriers(1)[0], (1, 2, 4))
        # CHECK: memref.view {{.*}} to memref<2x8x32xf32, #gpu.address_space<workgroup>>
        # CHECK: %[[C:\w+]] = arith.constant 4 : index
        # CHECK: %[[B:\w+]] = arith.constant 2 : index
        # CHECK: %[[A:\w+]] = arith.constant 1 : index
        # CHECK: nvgpu.tma.async.load %{{.*}}[%[[C]], %[[B]], %[[A]]],

    kernel()


@refused(array(nv.f16, 256, 256))
@nv.jit
def part_of_a_panel(a):
    nv.TMA(a, tile=(64, 96), swizzle=128)
    # CHECK: TraceError: boxes.py:[[# @LINE - 1]]: a tile row of 96 f16 (192 bytes), swizzle 128
    # CHECK-NEXT: rule: a row wider than the swizzle is copied in panels of the swizzle's width
    # CHECK-NEXT: fix: use a multiple of 64 columns


@refused(array(nv.f16, 256, 256))
@nv.jit
def one_extent_for_two_axes(a):
    nv.TMA(a, tile=64)
    # CHECK: TraceError: boxes.py:[[# @LINE - 1]]: a tile of shape (64,) of an array of shape (256, 256)
    # CHECK-NEXT: rule: a tile has one extent for each axis of the array
    # CHECK-NEXT: fix: pass 1 for the axes of which the tile takes one index


@refused(array(nv.f16, 256, 256))
@nv.jit
def extent_is_no_integer(a):
    nv.TMA(a, tile=(128 / 2, 64))
    # CHECK: TraceError: boxes.py:[[# @LINE - 1]]: nv.TMA(Array(shape=(256, 256), dtype=f16), tile=(64.0, 64))
    # CHECK-NEXT: rule: a tensor map is made of an array argument and a tile of Python ints
    # CHECK-NEXT: fix: nv.TMA(a, tile=(rows, cols)) for an argument a of the host function


@refused(3.0)
@nv.jit
def no_array(a):
    nv.TMA(a, tile=(64, 64))
    # CHECK: TraceError: boxes.py:[[# @LINE - 1]]: nv.TMA({{.*}}, tile=(64, 64))


@refused(array(nv.f16, 256, 256))
def in_the_kernel(a):
    nv.TMA(a, tile=(64, 64))
    # CHECK: TraceError: boxes.py:[[# @LINE - 1]]: a tensor map was created inside of kernel `kernel`
