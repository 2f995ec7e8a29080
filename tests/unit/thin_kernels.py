"""For tests of the thin layer: a kernel in LLVM's style around a function of the test."""

from nvdsl.ir.walk import find
from nvdsl.mlir.dialects import gpu
from nvdsl.thin import NVDSL


def trace(body, *arguments, block=128, smem=0, grid=(1, 1, 1)):
    """The module of a host function that launches ``body`` with its own arguments."""

    @NVDSL.mlir_func
    def main(*values):
        NVDSL.mlir_gpu_launch(grid=grid, block=(block, 1, 1), smem=smem)(body)(*values)

    module = main.trace(*arguments)
    alive.append(module)
    return module


alive = []  # ops do not keep their module


def kernel_ops(module):
    (launch,) = find(module, "gpu.launch")
    return [op.operation.name for op in launch.regions[0].blocks[0].operations]


def first_thread():
    return gpu.thread_id(gpu.Dimension.x) == 0
