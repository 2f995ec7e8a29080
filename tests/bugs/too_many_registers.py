"""setmaxnreg asks for more registers than the other warpgroups give up."""

import nvdsl as nv

ARRAYS = [((384,), "int32")]


@nv.jit
def kernel(out):
    @nv.kernel(grid=1, block=384)
    def body():
        if nv.warpgroup_id() == 0:
            nv.setmaxnreg_dec(104)
        else:
            nv.setmaxnreg_inc(240)  # verifier, simulator: deadlock
        out[nv.thread_id.x] = 1

    body()
