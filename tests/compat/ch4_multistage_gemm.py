"""LLVM style, chapter 4: a ring of stages written out by hand: offsets, phases, iter_args."""

import numpy as np

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, memref, nvgpu, nvvm, scf
from nvdsl.mlir.extras import types as T
from nvdsl.thin import *

M, N, K = 256, 256, 512
TILE_M, TILE_N, TILE_K = 128, 128, 64


def tile_origin():
    return gpu.block_id(gpu.Dimension.x) * TILE_M, gpu.block_id(gpu.Dimension.y) * TILE_N


def tma_load(mbar, a_tma, b_tma, slot, step, num_stages, predicate):
    row, col = tile_origin()
    a_bytes = get_type_size(a_tma.tma_memref)
    b_bytes = get_type_size(b_tma.tma_memref)
    a_at = slot * a_bytes
    b_at = slot * (2 * b_bytes) + num_stages * a_bytes
    ty = a_tma.tma_memref.element_type
    a = get_dynamic_shared_memory(a_tma.tma_memref.shape, ty, a_at)
    b_left = get_dynamic_shared_memory(b_tma.tma_memref.shape, ty, b_at)
    b_right = get_dynamic_shared_memory(b_tma.tma_memref.shape, ty, b_at + b_bytes)
    mbar[slot].arrive(a_bytes + 2 * b_bytes, predicate=predicate)
    k = step * TILE_K
    a_tma.load(a, mbar[slot], coords=[k, row], predicate=predicate)
    b_tma.load(b_left, mbar[slot], coords=[col, k], predicate=predicate)
    b_tma.load(b_right, mbar[slot], coords=[col + 64, k], predicate=predicate)


def initialize(a_tma, b_tma, num_stages):
    first = gpu.thread_id(gpu.Dimension.x) == 0
    mbar = Mbarriers(number_of_barriers=num_stages)
    with ir.InsertionPoint(scf.IfOp(first).then_block):
        for i in scf.for_(0, num_stages, 1):
            mbar[i].init(1)
            scf.yield_([])
        a_tma.prefetch()
        b_tma.prefetch()
        scf.yield_([])
    return mbar


def prologue(mbar, a_tma, b_tma, num_stages):
    first = gpu.thread_id(gpu.Dimension.x) == 0
    for iv in scf.for_(0, num_stages - 1, 1):
        tma_load(mbar, a_tma, b_tma, iv, iv, num_stages, first)
        scf.yield_([])


def mainloop(mbar, a_tma, b_tma, num_stages):
    steps = K // TILE_K
    first = gpu.thread_id(gpu.Dimension.x) == 0
    A = WGMMAMatrix(WGMMAType.Descriptor, [TILE_M, TILE_K], desc=a_tma)
    B = WGMMAMatrix(WGMMAType.Descriptor, [TILE_K, TILE_N], desc=b_tma)
    D = WGMMAMatrix(WGMMAType.Accumulator, shape=[TILE_M, TILE_N], ty=T.f32())
    a_bytes = TILE_M * TILE_K * get_type_size(T.f16())
    b_bytes = TILE_K * TILE_N * get_type_size(T.f16())

    phase = const(False, ty=T.bool())
    for_op = scf.ForOp(const(0), const(steps), const(1), [D.acc_op, phase])
    with ir.InsertionPoint(for_op.body):
        phase = for_op.inner_iter_args[1]
        iv = for_op.induction_variable
        stage = iv % num_stages
        mbar[stage].try_wait(phase=phase)

        A.update_smem(get_dynamic_shared_memory([TILE_M, TILE_K], T.f16(), stage * a_bytes))
        B.update_smem(
            get_dynamic_shared_memory([TILE_K, TILE_N], T.f16(), stage * b_bytes + num_stages * a_bytes)
        )
        D.update_accumulator(for_op.inner_iter_args[0])
        D += A @ B

        gpu.barrier()  # the slot that is refilled next was read by the step before
        ahead = iv + (num_stages - 1)
        more = (ahead < steps) & first
        tma_load(mbar, a_tma, b_tma, ahead % num_stages, ahead, num_stages, more)

        phase = arith.select(stage == (num_stages - 1), phase ^ const(True, ty=T.bool()), phase)
        scf.yield_([D.acc_op, phase])

    nvvm.WgmmaWaitGroupSyncOp(0)
    D.update_accumulator(for_op.results[0])
    return D


def epilogue(D, d_dev):
    row, col = tile_origin()
    tidx = gpu.thread_id(gpu.Dimension.x)
    gpu.barrier()  # the staging tile lies where the slots were
    d_smem = get_dynamic_shared_memory([TILE_M, TILE_N], T.f32())
    d_gmem = memref.subview(d_dev, [row, col], [TILE_M, TILE_N], [1, 1])
    D.store_accumulator(d_smem)
    gpu.barrier()
    for i in scf.for_(0, TILE_M, 1):
        memref.store(memref.load(d_smem, [i, tidx]), d_gmem, [i, tidx])
        scf.yield_([])


# RUN: env MLIR_NVDSL_PRINT_IR=1 %python %s | FileCheck %s
# CHECK-LABEL: func.func @gemm
# CHECK:         gpu.launch blocks
# CHECK:           nvgpu.mbarrier.create -> <{{.*}}num_barriers = 4>
# CHECK:           scf.if
# CHECK:             scf.for
# CHECK:               nvgpu.mbarrier.init
# CHECK:           nvvm.fence.mbarrier.init
# CHECK:           scf.for
# CHECK:             nvgpu.tma.async.load
# CHECK:           scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (!nvgpu.warpgroup.accumulator
# CHECK:             nvgpu.mbarrier.try_wait.parity
# CHECK:             nvgpu.warpgroup.mma
# CHECK:             scf.yield
# CHECK:           nvvm.wgmma.wait.group.sync.aligned 0
# CHECK:           nvgpu.warpgroup.mma.store
@NVDSL.mlir_func
def gemm(a, b, d, num_stages):
    token_ty = gpu.AsyncTokenType.get()
    t = gpu.wait([])
    a_dev, t = gpu.alloc(a.type, token_ty, [t], [], [])
    b_dev, t = gpu.alloc(b.type, token_ty, [t], [], [])
    d_dev, t = gpu.alloc(d.type, token_ty, [t], [], [])
    t = gpu.memcpy(token_ty, [t], a_dev, a)
    t = gpu.memcpy(token_ty, [t], b_dev, b)
    t = gpu.wait([t])

    swizzle = nvgpu.TensorMapSwizzleKind.SWIZZLE_128B
    a_tma = TMA([TILE_M, TILE_K], a.type, swizzle=swizzle)
    b_tma = TMA([TILE_K, 64], b.type, swizzle=swizzle)
    a_tma.create_descriptor(a_dev)
    b_tma.create_descriptor(b_dev)
    f16 = get_type_size(a.type.element_type)
    smem = max((TILE_M * TILE_K + TILE_N * TILE_K) * f16 * num_stages, TILE_M * TILE_N * 4)

    @NVDSL.mlir_gpu_launch(grid=(M // TILE_M, N // TILE_N, 1), block=(128, 1, 1), smem=smem)
    def kernel():
        mbar = initialize(a_tma, b_tma, num_stages)
        prologue(mbar, a_tma, b_tma, num_stages)
        D = mainloop(mbar, a_tma, b_tma, num_stages)
        epilogue(D, d_dev)

    kernel()

    t = gpu.memcpy(token_ty, [t], d, d_dev)
    gpu.wait([t])


def run(seed=0, num_stages=4):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.zeros((M, N), np.float32)
    gemm(a, b, d, num_stages=num_stages)
    if os.getenv("MLIR_NVDSL_PRINT_IR") != "1":
        np.testing.assert_allclose(d, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4, atol=1e-3)
        print("PASS")


if __name__ == "__main__":
    run()
