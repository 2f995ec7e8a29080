# RUN: env NVDSL_MLIR=nope not %python %s 2>&1 | FileCheck %s

"""NVDSL_MLIR that names no package."""

import nvdsl  # noqa: F401

# CHECK: nvdsl.errors.ToolchainError: no MLIR Python bindings: `import nope.ir` failed (No module named 'nope')
# CHECK-NEXT: rule: nvdsl builds its kernels with MLIR's Python bindings
# CHECK-NEXT: fix: pip install numba-cuda-mlir=={{.*}} and leave NVDSL_MLIR unset, or name the package of other MLIR bindings in NVDSL_MLIR
