"""Finished kernels, and the pieces that they are made of. Each file is one piece; read a kernel from top to bottom.

* a matrix product by a named configuration: `gemm`, `Config`
* the kernels, one for each schedule: `matmul_cooperative`, `matmul_pingpong`, `matmul_streamk`, `matmul_splitk`
* their pieces: `schedule` (which tile comes when), `operands` (A and B into shared memory), `mainloop` (the ring over
  K), `epilogue` (visit, convert, stmatrix, TMA store)
"""

from nvdsl.kernels.config import Config as Config
from nvdsl.kernels.gemm import gemm as gemm
