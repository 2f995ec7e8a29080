# RUN: %python %s | FileCheck %s

"""Fragments to and from tiles: stmatrix and ldmatrix of 16-bit elements; an A operand without shared memory."""

from show import refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show()
def kernel():
    tile = nv.smem((64, 40), nv.bf16, swizzle=16)
    acc = nv.accumulator(64, 40)
    acc.store(tile)
    # CHECK-COUNT-10: nvvm.convert.f32x2.to.bf16x2
    # CHECK-COUNT-2: nvvm.stmatrix %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {
    # CHECK: nvvm.stmatrix %{{[0-9a-z_]+}}, %{{[0-9a-z_]+}}, %{{[0-9a-z_]+}} {
    back = nv.fragment(tile)
    # CHECK-COUNT-2: nvvm.ldmatrix {{.*}} {eltType {{.*}}num = 4
    # CHECK: nvvm.ldmatrix {{.*}} {eltType {{.*}}num = 2
    assert (back.shape, back.dtype) == ((64, 40), nv.bf16)
    p = acc[:, 0:32].to(nv.bf16)
    # CHECK-COUNT-8: nvvm.convert.f32x2.to.bf16x2
    # CHECK-NOT: stmatrix
    o = nv.accumulator(64, 16)
    o += p @ nv.smem((32, 16), nv.bf16, swizzle=32)
    # CHECK: nvvm.wgmma.fence.aligned
    # CHECK-COUNT-2: wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16


@refused()
def shape():
    nv.accumulator(64, 64).store(nv.smem((64, 32), nv.f16))
    # CHECK: TraceError: tiles.py:[[# @LINE - 1]]: store of a 64 x 64 fragment and a tile of 64 x 32
    # CHECK-NEXT: rule: a tile takes and gives a fragment of its own shape
    # CHECK-NEXT: fix: tile.rows(start, count) and tile.cols(start, count) are parts of a tile


@refused()
def not_an_operand():
    nv.accumulator(64, 64) @ nv.smem((64, 64), nv.f16, swizzle=128)
    # CHECK: TraceError: tiles.py:[[# @LINE - 1]]: a 64 x 64 accumulator as a fragment of f32
    # CHECK-NEXT: rule: an accumulator's registers are those of an A operand for f16 and bf16, 16 columns a step
    # CHECK-NEXT: fix: convert to nv.f16 or nv.bf16, with a multiple of 16 columns: acc += p.to(nv.f16) @ b
