# RUN: not %python %s 2>&1 | FileCheck %s


"""A block of more than 1024 threads."""

import nvdsl as nv


@nv.jit
def saxpy(*, block):
    @nv.kernel(grid=1, block=block)
    def kernel():
        pass

    kernel()


saxpy.trace(block=1024)
print("1024 threads are possible")
saxpy.trace(block=1056)

# CHECK: 1024 threads are possible
# CHECK: nvdsl.errors.TraceError: {{.*}}block_too_large.py:[[# @LINE - 8]]: a block of 1056 x 1 x 1 = 1056 threads
# CHECK-NEXT: rule: a block has at most 1024 threads, 64 along z (CUDA programming guide, compute capabilities)
# CHECK-NEXT: fix: use a smaller block and more blocks
