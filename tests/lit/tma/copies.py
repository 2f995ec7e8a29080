# RUN: %python %s | FileCheck %s

"""load, store, reduce_add, prefetch and prefetch_tile: one instruction for each panel, coordinates as the array's axes."""

from show import array, refused, show

import nvdsl as nv


def host_of(body):
    @nv.jit
    def host(a):
        tma = nv.TMA(a, tile=(8, 64), swizzle=64)

        @nv.kernel(grid=2, block=128, cluster=2)
        def kernel():
            body(tma)

        kernel()

    return host


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 64, 64), ptx=True)
@host_of
def each(tma):
    tile = nv.smem((8, 64), nv.f16, swizzle=64)
    barrier = nv.Mbarriers(1)[0]
    first = nv.thread_id.x == 0
    # CHECK: %[[FIRST:\w+]] = arith.cmpi eq
    tma.prefetch(first)
    # CHECK: nvgpu.tma.prefetch.descriptor %{{.*}}, predicate = %[[FIRST]] : {{.*}}(line [[# @LINE - 1]])
    tma.load(tile, barrier, (0, 0), predicate=first, multicast_mask=3)
    # CHECK: nvgpu.tma.async.load {{.*}} multicast_mask = %{{.*}}, predicate = %[[FIRST]]
    # CHECK: nvgpu.tma.async.load {{.*}} multicast_mask = %{{.*}}, predicate = %[[FIRST]]
    tma.load(tile, barrier, (0, 0), l2_hint=nv.L2_EVICT_FIRST)
    # CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global
    tma.store(tile, (16, 0), predicate=first)
    # CHECK: %[[ROW:\w+]] = arith.constant 16 : index
    # CHECK: nvgpu.tma.async.store %{{.*}} to %{{.*}}[%{{.*}}, %[[ROW]]], predicate = %[[FIRST]] : {{.*}}(line [[# @LINE - 2]])
    # CHECK: nvgpu.tma.async.store
    tma.reduce_add(tile, (0, 0))
    # CHECK: nvvm.cp.async.bulk.tensor.reduce {{.*}}redKind = #nvvm.tma_redux_kind<add>
    # CHECK: %[[HALF:\w+]] = arith.constant 32 : i32
    # CHECK: nvvm.cp.async.bulk.tensor.reduce %{{.*}}, %{{.*}}, box[%[[HALF]],
    tma.prefetch_tile((0, 0))
    # CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.prefetch
    # CHECK-NOT: nvvm.cp.async.bulk.tensor
    # CHECK: gpu.terminator


# CHECK-LABEL: .entry kernel
# CHECK: .param .align 64 .b8 kernel_param_0[128]
# CHECK: prefetch.tensormap
# CHECK: cp.async.bulk.tensor.2d.shared::cluster.global
# CHECK: cp.async.bulk.tensor.2d.global.shared::cta
# CHECK: cp.reduce.async.bulk.tensor.2d.global.shared::cta.add
# CHECK: cp.async.bulk.prefetch.tensor.2d.L2.global


# One axis: a shared array takes the box.
# CHECK-LABEL: func.func @one_axis
@show(array(nv.f32, 256))
@nv.jit
def one_axis(x):
    tma = nv.TMA(x, tile=64)

    @nv.kernel(grid=1, block=128)
    def kernel():
        tma.load(nv.smem(64, nv.f32), nv.Mbarriers(1)[0], (128,))
        # CHECK: gpu.launch
        # CHECK: %[[AT:\w+]] = arith.constant 128 : index
        # CHECK: nvgpu.tma.async.load %{{.*}}[%[[AT]]],

    kernel()


@refused(array(nv.f16, 64, 64))
@host_of
def another_shape(tma):
    tma.load(nv.smem((16, 64), nv.f16, swizzle=64), nv.Mbarriers(1)[0], (0, 0))
    # CHECK: TraceError: copies.py:[[# @LINE - 1]]: TMA of (8, 64) f16, swizzle 64, with Tile((16, 64), f16, swizzle=64)
    # CHECK-NEXT: rule: the tensor map's tile and the tile in shared memory have one shape, dtype and swizzle
    # CHECK-NEXT: fix: nv.smem((8, 64), nv.f16, swizzle=64)


@refused(array(nv.f16, 64, 64))
@host_of
def another_swizzle(tma):
    tma.store(nv.smem((8, 64), nv.f16, swizzle=128), (0, 0))
    # CHECK: TraceError: copies.py:[[# @LINE - 1]]: TMA of (8, 64) f16, swizzle 64, with Tile((8, 64), f16, swizzle=128)


@refused(array(nv.f16, 64, 64))
@host_of
def another_width(tma):
    tma.reduce_add(nv.smem((8, 64), nv.f32, swizzle=64), (0, 0))
    # CHECK: TraceError: copies.py:[[# @LINE - 1]]: TMA of (8, 64) f16, swizzle 64, with Tile((8, 64), f32, swizzle=64)


@refused(array(nv.f16, 64, 64))
@host_of
def stack_for_a_tile(tma):
    tma.load(nv.smem((2, 8, 64), nv.f16, swizzle=64), nv.Mbarriers(1)[0], (0, 0))
    # CHECK: TraceError: copies.py:[[# @LINE - 1]]: TMA of (8, 64) f16, swizzle 64, with {{.*}}TileStack
    # CHECK: of a stack, one stage


@refused(array(nv.f16, 64, 64))
@host_of
def array_for_several_boxes(tma):
    tma.load(nv.smem(512, nv.f16), nv.Mbarriers(1)[0], (0, 0))
    # CHECK: TraceError: copies.py:[[# @LINE - 1]]: TMA of a tile (8, 64) in boxes of (8, 32), with a memref of shape (512,)
    # CHECK-NEXT: rule: a plain memref is filled by one box of its own shape
    # CHECK-NEXT: fix: copy into a tile: nv.smem((rows, cols), dtype, swizzle=...)


@refused(array(nv.f16, 64, 64))
@host_of
def coordinates(tma):
    tma.load(nv.smem((8, 64), nv.f16, swizzle=64), nv.Mbarriers(1)[0], (0,))
    # CHECK: TraceError: copies.py:[[# @LINE - 1]]: 1 coordinates for a tile of shape (8, 64)
    # CHECK-NEXT: rule: a TMA copy takes one coordinate for each axis of the array, in the array's order
    # CHECK-NEXT: fix: pass 2 coordinates


@refused(array(nv.f16, 64, 64))
@host_of
def group_for_an_mbarrier(tma):
    tma.load(nv.smem((8, 64), nv.f16, swizzle=64), nv.Mbarriers(1), (0, 0))
    # CHECK: TraceError: copies.py:[[# @LINE - 1]]: a Mbarriers in the place of an mbarrier


@refused(array(nv.f16, 64, 64))
@nv.jit
def box_not_aligned(a):
    tma = nv.TMA(a, tile=(2, 32), swizzle=32)

    @nv.kernel(grid=1, block=128)
    def kernel():
        tma.load(nv.smem((2, 32), nv.f16, swizzle=32), nv.Mbarriers(1)[0], (0, 0))
        # CHECK: TraceError: copies.py:[[# @LINE - 1]]: TMA with Tile((2, 32), f16, swizzle=32): a box would lie at byte 64 of shared memory
        # CHECK-NEXT: rule: a box lies at a multiple of 128 bytes (PTX ISA, cp.async.bulk.tensor)
        # CHECK-NEXT: fix: make the tile's rows a multiple of 8

    kernel()
