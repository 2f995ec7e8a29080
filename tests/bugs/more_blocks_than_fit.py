"""All blocks of a grid wait for each other, and the GPU does not hold them all."""

import nvdsl as nv
from nvdsl.mlir.dialects import arith, memref
from nvdsl.ops import memory

ARRAYS = [((1,), "int32")]


@nv.jit
def kernel(counter):
    @nv.kernel(grid=136, block=32, cluster=8)
    def body():
        nv.smem((40_000,), nv.i32)
        if nv.thread_id.x == 0:
            memref.atomic_rmw(arith.AtomicRMWKind.addi, nv.i32(1), counter, [nv.index(0)])
            while memory.load_acquire(counter, 0) < 136:  # simulator: deadlock
                pass

    body()
