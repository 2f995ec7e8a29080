"""A store into the shared memory of a block that may not have begun."""

import nvdsl as nv
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.pointer import address_of

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=2, block=32, cluster=2)
    def body():
        given = nv.smem((32,), nv.i32)
        t, rank = nv.thread_id.x, nv.cluster_rank()
        there = nv.mapa(address_of(given, t * 4), rank ^ 1)
        llvm.StoreOp(nv.i32(t), there, alignment=4)  # simulator: unstarted-block
        nv.cluster_sync()
        out[rank * 32 + t] = given[t]

    body()
