# RUN: not %python %s 2>&1 | FileCheck %s


"""More shared memory than a block has: the values are the kernel's data and its mbarriers."""

import nvdsl as nv


@nv.jit
def gemm(*, stages):
    @nv.kernel(grid=1, block=128)
    def kernel():
        nv.smem((stages, 128, 64), nv.f16, swizzle=128)
        nv.Mbarriers(stages)

    kernel()


gemm.trace(stages=14)
print("14 stages fit")
gemm.trace(stages=15)

# CHECK: 14 stages fit
# CHECK: nvdsl.errors.VerifyError: {{.*}}shared_memory.py:[[# @LINE - 8]]: the kernel needs 245,880 bytes of shared memory: 245,760 of data and 120 of mbarriers
# CHECK-NEXT: rule: a block has at most 232,448 bytes (CUDA programming guide, compute capability 9.0)
# CHECK-NEXT: fix: use fewer stages or smaller tiles
