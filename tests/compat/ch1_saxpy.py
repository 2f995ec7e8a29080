"""LLVM style, chapter 1: device memory by gpu.alloc and gpu.memcpy, loads and stores of memrefs."""

import numpy as np

from nvdsl.mlir import ir
from nvdsl.mlir.dialects import gpu, memref
from nvdsl.thin import *

M, N = 64, 32


# RUN: env MLIR_NVDSL_PRINT_IR=1 %python %s | FileCheck %s
# CHECK:       func.func @saxpy(%[[X:.*]]: memref<64x32xf32>, %[[Y:.*]]: memref<64x32xf32>, %[[ALPHA:.*]]: f32)
# CHECK:         %[[XD:.*]], %{{.*}} = gpu.alloc async
# CHECK:         %[[YD:.*]], %{{.*}} = gpu.alloc async
# CHECK:         gpu.memcpy async [%{{.*}}] %[[XD]], %[[X]]
# CHECK:         gpu.launch blocks
# CHECK:           %[[V:.*]] = memref.load %[[XD]]
# CHECK:           %[[P:.*]] = arith.mulf %[[V]], %[[ALPHA]]
# CHECK:           memref.store %{{.*}}, %[[YD]]
# CHECK:         gpu.memcpy async [%{{.*}}] %[[Y]], %[[YD]]
@NVDSL.mlir_func
def saxpy(x, y, alpha):
    token_ty = gpu.AsyncTokenType.get()
    t = gpu.wait([])
    x_dev, t = gpu.alloc(x.type, token_ty, [t], [], [])
    y_dev, t = gpu.alloc(y.type, token_ty, [t], [], [])
    t = gpu.memcpy(token_ty, [t], x_dev, x)
    t = gpu.memcpy(token_ty, [t], y_dev, y)
    t = gpu.wait([t])

    @NVDSL.mlir_gpu_launch(grid=(M, 1, 1), block=(N, 1, 1))
    def kernel():
        row = gpu.block_id(gpu.Dimension.x)
        col = gpu.thread_id(gpu.Dimension.x)
        x_val = memref.load(x_dev, [row, col])
        y_val = memref.load(y_dev, [row, col])
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
