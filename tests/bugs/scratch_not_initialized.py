"""A sum in scratch memory that nothing set to zero."""

import nvdsl as nv
from nvdsl.mlir.dialects import arith, memref

ARRAYS = [((64,), "int32"), ((64,), "int32")]


@nv.jit
def kernel(x, out):
    total = nv.empty((64,), nv.i32)

    @nv.kernel(grid=2, block=64)
    def body():
        t = nv.thread_id.x
        memref.atomic_rmw(arith.AtomicRMWKind.addi, x[t], total, [nv.index(t)])  # simulator: uninitialized

    @nv.kernel(grid=1, block=64)
    def finish():
        out[nv.thread_id.x] = total[nv.thread_id.x]

    body()
    finish()
