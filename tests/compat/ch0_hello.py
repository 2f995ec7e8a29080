"""LLVM style, chapter 0: the host builds gpu.launch, each thread prints itself."""

from nvdsl.thin import *


# RUN: env MLIR_NVDSL_PRINT_IR=1 %python %s | FileCheck %s
# CHECK-LABEL: func.func @main(%{{.*}}: index)
# CHECK:         gpu.launch blocks
# CHECK:           gpu.thread_id x
# CHECK:           arith.addi
# CHECK:           gpu.printf "GPU thread %llu has %llu\0A"
@NVDSL.mlir_func
def main(alpha):
    @NVDSL.mlir_gpu_launch(grid=(1, 1, 1), block=(4, 1, 1))
    def kernel():
        tidx = gpu.thread_id(gpu.Dimension.x)
        value = alpha + tidx
        gpu.printf("GPU thread %llu has %llu\n", tidx, value)

    kernel()


if __name__ == "__main__":
    main(100)
