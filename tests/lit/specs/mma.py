# RUN: %python %s | FileCheck %s

"""A product by the instruction that its sums' layout names: wgmma, mma.sync, or fused multiply-adds."""

from show import array, refused, show

import nvdsl as nv
from nvdsl.layout import E, Layout


def tile(rows):
    return nv.smem((rows, 64), nv.f16, swizzle=128)


# CHECK-LABEL: gpu.launch
@show()
def of_a_warpgroup():
    acc = nv.spec.mma(nv.accumulator(64, 8), tile(64), tile(8).T, nv.spec.threads())()
    # CHECK-COUNT-4: nvvm.wgmma.mma_async
    nv.wgmma_wait(0)
    acc.registers()


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 16, 8), block=32)
def of_a_warp(d):
    nv.spec.mma(nv.warp_accumulator(16, 8), tile(16), tile(8).T, nv.spec.threads())().store(d, (0, 0))
    # CHECK-COUNT-4: nvvm.ldmatrix {{.*}}num = 4
    # CHECK-COUNT-2: nvvm.ldmatrix {{.*}}num = 4
    # CHECK-COUNT-4: nvvm.mma.sync


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 16, 8), block=64)
def in_parts(d):
    warps = nv.spec.threads().tile(32)
    product = nv.spec.mma(nv.warp_accumulator(16, 8), tile(16), tile(16).T, nv.spec.threads())
    for part in product.tile((16, 8), warps):
        part().store(d, (0, 0))
        # CHECK-COUNT-4: nvvm.mma.sync


# CHECK-LABEL: gpu.launch
@show(array(nv.f32, 8, 4), block=32)
def of_threads(x):
    layout = Layout(((4, 8), 1), ((E(0, 1), E(1, 0)), E(0, 0)))
    acc = nv.spec.move(x, layout, nv.spec.threads())()
    nv.spec.mma(acc, nv.spec.of(x, (0, 0), (8, 4)), nv.spec.of(x, (0, 0), (4, 4)), nv.spec.threads())()
    # CHECK-COUNT-4: llvm.intr.fma


@refused()
def by_another():
    nv.spec.mma(nv.warp_accumulator(16, 8), tile(16), tile(8).T, nv.spec.threads())()
    # CHECK: TraceError: mma.py:[[# @LINE - 1]]: WarpAccumulator((16, 8), f32) + (16x64 f16 at (0, 0) of Tile
    # CHECK-SAME: by 128 threads: no instruction does it
    # CHECK-NEXT: rule: wgmma: the sums are not those of a warpgroup (nv.accumulator); mma.sync: a warp executes it, 32 lanes in their order, not 128 threads; fma:
