"""A store behind the end of a tile, where an mbarrier lies."""

import nvdsl as nv
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.pointer import SHARED, address_of, byte_offset

ARRAYS = [((64,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=64)
    def body():
        tile = nv.smem((64,), nv.i32)
        bar = nv.Mbarriers(1, arrivals=64)[0]
        t = nv.thread_id.x
        here = byte_offset(address_of(tile, space=SHARED), nv.index(t + 2) * 4)
        llvm.store(t, here, alignment=4)  # simulator: mbarrier-bytes
        bar.arrive()
        bar.wait(0)
        out[t] = tile[(t + 2) % 64]

    body()
