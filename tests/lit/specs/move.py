# RUN: %python %s | FileCheck %s

"""A move by the instruction that fits its layouts: ldmatrix, stmatrix, 128-bit vectors, single elements, TMA."""

from show import array, refused, show

import nvdsl as nv


# CHECK-LABEL: gpu.launch
@show(block=64)
def to_fragments():
    warps = nv.spec.threads().tile(32)
    held = nv.spec.move(nv.smem((16, 64), nv.f16, swizzle=128), nv.layout.mma_a(2, 64), warps)()
    # CHECK-COUNT-4: nvvm.ldmatrix {{.*}}num = 4
    nv.spec.move(held, nv.smem((64, 16), nv.f16, swizzle=32).T, warps)()
    # CHECK-COUNT-4: nvvm.stmatrix {{.*}}<col>


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 32, 64), ptx=True, block=64)
def to_shared_memory(x):
    nv.spec.move(x, nv.smem((32, 64), nv.f16, swizzle=128), nv.spec.threads())()
    # CHECK-COUNT-4: vector.load {{.*}} vector<8xf16> (line [[# @LINE - 1]])
    # CHECK-COUNT-4: vector.store {{.*}} vector<8xf16>
    # CHECK: ld.global.v4.b32
    # CHECK: st.shared.v4.b32


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 32, 64), ptx=True, block=64)
def asynchronous(x):
    nv.spec.move(x, nv.smem((32, 64), nv.f16, swizzle=128), nv.spec.threads(), asynchronous=True)()
    # CHECK-COUNT-4: nvgpu.device_async_copy
    nv.cp_async_commit()
    nv.cp_async_wait(0)
    # CHECK: cp.async.cg.shared.global


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 32, 64), block=64)
def overridden(x):
    nv.spec.move(x, nv.smem((32, 64), nv.f16, swizzle=128), nv.spec.threads())(using="scalar")
    # CHECK-COUNT-32: memref.load


# CHECK-LABEL: gpu.launch
@show(array(nv.f16, 32, 64), block=64)
def in_parts(x):
    move = nv.spec.move(x, nv.smem((32, 64), nv.f16, swizzle=128), nv.spec.threads())
    for part in move.tile((16, 32), nv.spec.threads().tile(32)):
        # Two parts a warp, each of two accesses a lane.
        part()
        # CHECK-COUNT-2: vector.load {{.*}} vector<8xf16>
        # CHECK: vector.store
        # CHECK-COUNT-2: vector.load {{.*}} vector<8xf16>


@refused(array(nv.f16, 64, 64))
def by_tma(x):
    nv.spec.move(x, nv.smem((64, 64), nv.f16, swizzle=128), nv.spec.threads())(using="tma")
    # CHECK: TraceError: move.py:[[# @LINE - 1]]: move 64x64 f16 at (0, 0) of Array
    # CHECK-SAME: by 128 threads using 'tma'
    # CHECK-NEXT: rule: tma: neither side is a tensor map
