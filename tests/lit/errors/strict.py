# RUN: env NVDSL_VERIFY=off not %python %s 2>&1 | FileCheck %s

"""What ptxas advises against is a warning at the user's line, and with strict=True an error. The
verifier would refuse this kernel before ptxas sees it."""

import nvdsl as nv


def forgetful(d):
    """Reads an accumulator without a wait."""

    @nv.kernel(grid=1, block=128)
    def kernel():
        acc = nv.accumulator(64, 64)
        acc += nv.smem((64, 64), nv.f16, swizzle=128) @ nv.smem((64, 64), nv.f16, swizzle=128)
        acc.store(d, (0, 0))

    kernel()


D = nv.ShapeDtype((64, 64), nv.f32)
nv.jit(forgetful).compile(D)
# CHECK: {{.*}}strict.py:[[# @LINE - 7]]: AdvisoryWarning: kernel kernel: ptxas added a wait
nv.jit(forgetful, strict=True).compile(D)
# CHECK: nvdsl.errors.LowerError: {{.*}}strict.py:[[# @LINE - 9]]: kernel kernel: ptxas added a wait
# CHECK: fix: read and change an accumulator only after the wgmma_wait that completes it
# CHECK: rule: in strict mode (NVDSL_STRICT=1) a kernel compiles as it was meant, or not at all
