"""LLVM style, chapter 5: a producer and a consumer warpgroup, two groups of mbarriers, `with Warpgroup`."""

import numpy as np

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import arith, gpu, memref, nvgpu, nvvm, scf
from nvdsl.mlir.extras import types as T
from nvdsl.thin import *

M, N, K = 256, 256, 512
TILE_M, TILE_N, TILE_K = 128, 128, 64


def tile_origin():
    return gpu.block_id(gpu.Dimension.x) * TILE_M, gpu.block_id(gpu.Dimension.y) * TILE_N


def tma_load(full, a_tma, b_tma, slot, step, num_stages, predicate):
    row, col = tile_origin()
    a_bytes = get_type_size(a_tma.tma_memref)
    b_bytes = get_type_size(b_tma.tma_memref)
    ty = a_tma.tma_memref.element_type
    a_at = slot * a_bytes
    b_at = slot * (2 * b_bytes) + num_stages * a_bytes
    a = get_dynamic_shared_memory(a_tma.tma_memref.shape, ty, a_at)
    b_left = get_dynamic_shared_memory(b_tma.tma_memref.shape, ty, b_at)
    b_right = get_dynamic_shared_memory(b_tma.tma_memref.shape, ty, b_at + b_bytes)
    full[slot].arrive(a_bytes + 2 * b_bytes, predicate=predicate)
    k = step * TILE_K
    a_tma.load(a, full[slot], coords=[k, row], predicate=predicate)
    b_tma.load(b_left, full[slot], coords=[col, k], predicate=predicate)
    b_tma.load(b_right, full[slot], coords=[col + 64, k], predicate=predicate)


def initialize(a_tma, b_tma, num_stages):
    first = gpu.thread_id(gpu.Dimension.x) == 0
    full = Mbarriers(number_of_barriers=num_stages)
    empty = Mbarriers(number_of_barriers=num_stages)
    with ir.InsertionPoint(scf.IfOp(first).then_block):
        for i in scf.for_(0, num_stages, 1):
            full[i].init(1)
            empty[i].init(1)
            scf.yield_([])
        a_tma.prefetch()
        b_tma.prefetch()
        scf.yield_([])
    return full, empty


def flip(stage, phase, num_stages):
    return arith.select(stage == (num_stages - 1), phase ^ const(True, ty=T.bool()), phase)


def producer_loop(full, empty, a_tma, b_tma, me, num_stages):
    phase = const(True, ty=T.bool())
    for iv, phase, _ in scf.for_(0, K // TILE_K, 1, [phase]):
        stage = iv % num_stages
        empty[stage].try_wait(phase)
        phase = flip(stage, phase, num_stages)
        tma_load(full, a_tma, b_tma, stage, iv, num_stages, me.is_wg_primary)
        scf.yield_([phase])


def consumer_loop(full, empty, a_tma, b_tma, me, num_stages):
    A = WGMMAMatrix(WGMMAType.Descriptor, [TILE_M, TILE_K], desc=a_tma)
    B = WGMMAMatrix(WGMMAType.Descriptor, [TILE_K, TILE_N], desc=b_tma)
    D = WGMMAMatrix(WGMMAType.Accumulator, shape=[TILE_M, TILE_N], ty=T.f32())
    a_bytes = TILE_M * TILE_K * get_type_size(T.f16())
    b_bytes = TILE_K * TILE_N * get_type_size(T.f16())
    phase = const(False, ty=T.bool())
    for_op = scf.ForOp(const(0), const(K // TILE_K), const(1), [D.acc_op, phase])
    with ir.InsertionPoint(for_op.body):
        phase = for_op.inner_iter_args[1]
        iv = for_op.induction_variable
        stage = iv % num_stages
        full[stage].try_wait(phase)
        A.update_smem(get_dynamic_shared_memory([TILE_M, TILE_K], T.f16(), stage * a_bytes))
        B.update_smem(
            get_dynamic_shared_memory([TILE_K, TILE_N], T.f16(), stage * b_bytes + num_stages * a_bytes)
        )
        D.update_accumulator(for_op.inner_iter_args[0])
        D += A @ B
        # All four warps are done with the slot before: only then does one thread say so.
        gpu.barrier()
        with ir.InsertionPoint(scf.IfOp((iv > 0) & me.is_wg_primary).then_block):
            before = arith.select(stage == 0, const(num_stages - 1), stage - 1)
            empty[before].arrive()
            scf.yield_([])
        phase = flip(stage, phase, num_stages)
        scf.yield_([D.acc_op, phase])
    nvvm.WgmmaWaitGroupSyncOp(0)
    D.update_accumulator(for_op.results[0])
    return D


def epilogue(D, d_dev):
    row, col = tile_origin()
    tidx = gpu.thread_id(gpu.Dimension.x) % WARP_GROUP_SIZE
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
# CHECK:           nvvm.fence.mbarrier.init
# CHECK-NEXT:      gpu.barrier
# CHECK:           scf.if
# CHECK:             nvvm.setmaxregister decrease 40
# CHECK:             nvgpu.tma.async.load
# CHECK:           scf.if
# CHECK:             nvvm.setmaxregister {{increase|decrease}} 232
# CHECK:             nvgpu.warpgroup.mma
# One warpgroup meets at a barrier of its own.
# CHECK-NOT:         gpu.barrier
# CHECK:             nvvm.barrier id = %{{.*}} number_of_threads = %{{.*}}
# CHECK:             nvgpu.mbarrier.arrive
# CHECK-NOT:         gpu.barrier
# CHECK:             nvgpu.warpgroup.mma.store
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

    @NVDSL.mlir_gpu_launch(grid=(M // TILE_M, N // TILE_N, 1), block=(256, 1, 1), smem=smem)
    def kernel():
        producer = Warpgroup(primary_thread=128, register_size=40)
        consumer = Warpgroup(primary_thread=0, register_size=232)
        full, empty = initialize(a_tma, b_tma, num_stages)
        with producer:
            producer_loop(full, empty, a_tma, b_tma, producer, num_stages)
        with consumer:
            D = consumer_loop(full, empty, a_tma, b_tma, consumer, num_stages)
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
