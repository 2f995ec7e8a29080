"""LLVM style, chapter 3: one tile on the tensor cores, accumulators stored straight to global memory."""

import numpy as np

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu, memref, nvgpu, scf
from nvdsl.mlir.extras import types as T
from nvdsl.thin import *

M, N, K = 128, 128, 64


def load_tiles(mbar, a_tma, b_tma, predicate):
    a_bytes = get_type_size(a_tma.tma_memref)
    b_bytes = get_type_size(b_tma.tma_memref)
    a = get_dynamic_shared_memory(a_tma.tma_memref.shape, a_tma.tma_memref.element_type)
    b_left = get_dynamic_shared_memory(b_tma.tma_memref.shape, b_tma.tma_memref.element_type, a_bytes)
    b_right = get_dynamic_shared_memory(b_tma.tma_memref.shape, b_tma.tma_memref.element_type, a_bytes + b_bytes)
    mbar[0].arrive(a_bytes + 2 * b_bytes, predicate=predicate)
    a_tma.load(a, mbar[0], coords=[0, 0], predicate=predicate)
    b_tma.load(b_left, mbar[0], coords=[0, 0], predicate=predicate)
    b_tma.load(b_right, mbar[0], coords=[64, 0], predicate=predicate)


# RUN: env MLIR_NVDSL_PRINT_IR=1 %python %s | FileCheck %s
# CHECK-LABEL: func.func @gemm_tile
# CHECK:         gpu.launch blocks
# CHECK:           nvgpu.mbarrier.try_wait.parity
# CHECK:           %[[ACC:.*]] = nvgpu.warpgroup.mma.init.accumulator
# CHECK:           %[[A:.*]] = nvgpu.warpgroup.generate.descriptor
# CHECK:           %[[B:.*]] = nvgpu.warpgroup.generate.descriptor
# CHECK:           %[[D:.*]] = nvgpu.warpgroup.mma %[[A]], %[[B]], %[[ACC]] {transposeB}
# Registers are not stored before wgmma is done with them.
# CHECK:           nvvm.wgmma.wait.group.sync.aligned 0
# CHECK:           nvgpu.warpgroup.mma.store %[[D]]
@NVDSL.mlir_func
def gemm_tile(a, b, d):
    token_ty = gpu.AsyncTokenType.get()
    t = gpu.wait([])
    a_dev, t = gpu.alloc(a.type, token_ty, [t], [], [])
    b_dev, t = gpu.alloc(b.type, token_ty, [t], [], [])
    d_dev, t = gpu.alloc(d.type, token_ty, [t], [], [])
    t = gpu.memcpy(token_ty, [t], a_dev, a)
    t = gpu.memcpy(token_ty, [t], b_dev, b)
    t = gpu.wait([t])

    swizzle = nvgpu.TensorMapSwizzleKind.SWIZZLE_128B
    a_tma = TMA([M, K], a.type, swizzle=swizzle)
    b_tma = TMA([K, 64], b.type, swizzle=swizzle)
    a_tma.create_descriptor(a_dev)
    b_tma.create_descriptor(b_dev)
    a_bytes = get_type_size(a.type)

    @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(128, 1, 1), smem=a_bytes + get_type_size(b.type))
    def kernel():
        tidx = gpu.thread_id(gpu.Dimension.x)
        first = tidx == 0
        mbar = Mbarriers(number_of_barriers=1)
        mbar[0].init(1, predicate=first)
        a_tma.prefetch(predicate=first)
        b_tma.prefetch(predicate=first)

        a_smem = get_dynamic_shared_memory((M, K), T.f16())
        b_smem = get_dynamic_shared_memory((K, N), T.f16(), offset=a_bytes)
        load_tiles(mbar, a_tma, b_tma, first)
        mbar[0].try_wait()

        A = WGMMAMatrix(WGMMAType.Descriptor, [M, K], desc=a_tma, smem=a_smem)
        B = WGMMAMatrix(WGMMAType.Descriptor, [K, N], desc=b_tma, smem=b_smem)
        D = WGMMAMatrix(WGMMAType.Accumulator, shape=[M, N], ty=T.f32())
        D += A @ B
        D.store_accumulator(d_dev)

    kernel()

    t = gpu.memcpy(token_ty, [t], d, d_dev)
    gpu.wait([t])


def run(seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    d = np.zeros((M, N), np.float32)
    gemm_tile(a, b, d)
    if os.getenv("MLIR_NVDSL_PRINT_IR") != "1":
        np.testing.assert_allclose(d, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4, atol=1e-3)
        print("PASS")


if __name__ == "__main__":
    run()
