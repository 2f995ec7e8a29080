"""LLVM style, chapter 2: the same through TMA, one box a block, completion on an mbarrier."""

import numpy as np

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu, memref, nvgpu, scf
from nvdsl.mlir.extras import types as T
from nvdsl.thin import *

M, N = 64, 32


# RUN: env MLIR_NVDSL_PRINT_IR=1 %python %s | FileCheck %s
# CHECK-LABEL: func.func @saxpy
# CHECK:         %[[XT:.*]] = nvgpu.tma.create.descriptor
# CHECK:         %[[YT:.*]] = nvgpu.tma.create.descriptor
# CHECK:         gpu.launch blocks
# CHECK:           %[[BAR:.*]] = nvgpu.mbarrier.create
# CHECK:           nvgpu.mbarrier.init %[[BAR]]{{.*}}predicate =
# An mbarrier that was initialized is synchronized, though the program does not say so.
# CHECK:           nvvm.fence.mbarrier.init
# CHECK-NEXT:      gpu.barrier
# CHECK:           nvgpu.tma.async.load %[[XT]]
# CHECK:           nvgpu.tma.async.load %[[YT]]
# CHECK:           nvgpu.mbarrier.arrive.expect_tx %[[BAR]]{{.*}}predicate =
# CHECK:           nvgpu.mbarrier.try_wait.parity %[[BAR]]
@NVDSL.mlir_func
def saxpy(x, y, alpha):
    token_ty = gpu.AsyncTokenType.get()
    t = gpu.wait([])
    x_dev, t = gpu.alloc(x.type, token_ty, [t], [], [])
    y_dev, t = gpu.alloc(y.type, token_ty, [t], [], [])
    t = gpu.memcpy(token_ty, [t], x_dev, x)
    t = gpu.memcpy(token_ty, [t], y_dev, y)
    t = gpu.wait([t])

    x_tma = TMA([1, N], x.type)
    y_tma = TMA([1, N], y.type)
    x_tma.create_descriptor(x_dev)
    y_tma.create_descriptor(y_dev)
    bytes_x = get_type_size(x_tma.tma_memref)
    bytes_y = get_type_size(y_tma.tma_memref)

    @NVDSL.mlir_gpu_launch(grid=(M, 1, 1), block=(N, 1, 1), smem=bytes_x + bytes_y)
    def kernel():
        row = gpu.block_id(gpu.Dimension.x)
        col = gpu.thread_id(gpu.Dimension.x)
        first = col == 0
        mbar = Mbarriers(number_of_barriers=1)
        mbar[0].init(1, predicate=first)
        x_tma.prefetch(predicate=first)
        y_tma.prefetch(predicate=first)

        x_smem = get_dynamic_shared_memory((1, N), T.f32())
        y_smem = get_dynamic_shared_memory((1, N), T.f32(), offset=bytes_x)
        x_tma.load(x_smem, mbar[0], coords=[0, row], predicate=first)
        y_tma.load(y_smem, mbar[0], coords=[0, row], predicate=first)
        mbar[0].arrive(txcount=bytes_x + bytes_y, predicate=first)
        mbar[0].try_wait()

        x_val = memref.load(x_smem, [const(0), col])
        y_val = memref.load(y_smem, [const(0), col])
        y_val += x_val * alpha
        memref.store(y_val, y_dev, [row, col])

    kernel()

    t = gpu.memcpy(token_ty, [t], y, y_dev)
    gpu.wait([t])


def run(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((M, N), dtype=np.float32)
    y = rng.standard_normal((M, N), dtype=np.float32)
    expected = y + 2.5 * x
    saxpy(x, y, 2.5)
    if os.getenv("MLIR_NVDSL_PRINT_IR") != "1":
        np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
        print("PASS")


if __name__ == "__main__":
    run()
