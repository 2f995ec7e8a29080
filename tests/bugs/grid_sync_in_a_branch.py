"""A barrier of the grid to which one block does not come."""

import nvdsl as nv

ARRAYS = [((1,), "int32")]


@nv.jit
def kernel(counter):
    @nv.kernel(grid=3, block=64)
    def body():
        if nv.block_id.x < 2:
            nv.grid_sync(counter)  # simulator: deadlock

    body()
