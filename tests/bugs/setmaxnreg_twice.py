"""A warpgroup changes its registers twice without meeting in between."""

import nvdsl as nv

ARRAYS = [((128,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=128)
    def body():
        nv.setmaxnreg_dec(96)
        out[nv.thread_id.x] = 1
        nv.setmaxnreg_dec(48)  # simulator: setmaxnreg

    body()
