# RUN: env NVDSL_PTXAS=/nonexistent/ptxas not %python %s 2>&1 | FileCheck %s

"""NVDSL_PTXAS that names no program."""

import nvdsl as nv


@nv.jit
def nothing():
    @nv.kernel(grid=1, block=32)
    def kernel():
        pass

    kernel()


nothing.trace()
print("tracing needs no ptxas")
nothing.compile()

# CHECK: tracing needs no ptxas
# CHECK: nvdsl.errors.ToolchainError: {{.*}}NVDSL_PTXAS names '/nonexistent/ptxas', which is no program that can be run
# CHECK-NEXT: fix: set NVDSL_PTXAS to the path of ptxas, or unset it to use the installed one
