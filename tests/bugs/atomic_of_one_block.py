"""An atomic whose scope is the block, on memory that other blocks use."""

import nvdsl as nv
from nvdsl.mlir.dialects import llvm
from nvdsl.ops.pointer import GLOBAL, address_of

ARRAYS = [((1,), "int32")]


@nv.jit
def kernel(counter):
    @nv.kernel(grid=4, block=32)
    def body():
        order = {"ordering": llvm.AtomicOrdering.monotonic, "syncscope": "block"}
        llvm.atomicrmw(llvm.AtomicBinOp.add, address_of(counter, space=GLOBAL), nv.i32(1), **order)  # simulator: scope

    body()
