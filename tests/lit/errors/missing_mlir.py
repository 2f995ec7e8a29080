# RUN: env NVDSL_MLIR=nope not %python %s 2>&1 | FileCheck %s

"""NVDSL_MLIR that names no package."""

import nvdsl  # noqa: F401

# CHECK: nvdsl.errors.ToolchainError: no MLIR Python bindings: `import nope.ir` failed (No module named 'nope')
# CHECK-NEXT: rule: nvdsl builds its kernels with MLIR's Python bindings
# CHECK-NEXT: fix: pip install numba-cuda-mlir=={{.*}} and leave NVDSL_MLIR unset; or pip install 'nvdsl[upstream]' and set NVDSL_MLIR=mlir
