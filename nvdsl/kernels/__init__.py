"""Finished kernels: a folder for each family, and what the families are built of.

* ``blocks``: what a kernel reads, multiplies and writes with: tile scheduler, operands, main loop, epilogue
* ``attention``: attention forward
* ``mlp``: fully connected layers, all in one kernel
* ``rows``: softmax, norms and cross entropy over the last axis, and their gradients
* ``gemm``: matrix products. `gemm` runs one named configuration (`Config`); `nvdsl.matmul` chooses
"""

from nvdsl.kernels.gemm.config import Config as Config
from nvdsl.kernels.gemm.launch import gemm as gemm
